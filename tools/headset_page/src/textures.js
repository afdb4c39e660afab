// Pictures that are drawn when the page starts, so that no file has to be loaded.
import { CanvasTexture, RepeatWrapping, SRGBColorSpace } from "three";

function canvas(width, height) {
  const made = document.createElement("canvas");
  made.width = width;
  made.height = height;
  return [made, made.getContext("2d")];
}

/** Oak planks, 2 m × 2 m, each board with its own tone and grain. */
export function planks() {
  const size = 1024, boards = 8, [made, g] = canvas(size, size);
  let seed = 7;
  const random = () => ((seed = (seed * 16807) % 2147483647) / 2147483647);
  const width = size / boards;
  for (let b = 0; b < boards; b++) {
    const shift = Math.floor(random() * size);
    for (let part = 0; part < 2; part++) {
      const tone = 0.86 + 0.2 * random();
      const [r, gr, bl] = [172, 140, 104].map((c) => Math.round(c * tone));
      const y0 = (shift + (part * size) / 2) % size;
      for (const y of [y0, y0 - size]) {
        g.fillStyle = `rgb(${r},${gr},${bl})`;
        g.fillRect(b * width, y, width, size / 2);
        for (let k = 0; k < 70; k++) {
          g.strokeStyle = `rgba(${random() < 0.5 ? "60,40,20" : "225,195,155"},${0.03 + 0.06 * random()})`;
          g.lineWidth = 0.5 + 1.8 * random();
          const x = b * width + random() * width, bend = 5 * (random() - 0.5);
          g.beginPath();
          g.moveTo(x, y);
          g.bezierCurveTo(x + bend, y + size / 6, x - bend, y + size / 3, x, y + size / 2);
          g.stroke();
        }
        g.fillStyle = "rgba(45,30,18,0.55)";
        g.fillRect(b * width, y, width, 2);
      }
    }
    g.fillStyle = "rgba(45,30,18,0.6)";
    g.fillRect(b * width, 0, 2, size);
  }
  const texture = new CanvasTexture(made);
  texture.colorSpace = SRGBColorSpace;
  texture.wrapS = texture.wrapT = RepeatWrapping;
  texture.anisotropy = 8;
  return texture;
}

/** A light wall, a little darker towards floor, ceiling and corners, as indirect light makes it. */
export function plaster() {
  const [made, g] = canvas(512, 256);
  g.fillStyle = "#d9d4ca";
  g.fillRect(0, 0, 512, 256);
  const shade = (x0, y0, x1, y1, stops) => {
    const fade = g.createLinearGradient(x0, y0, x1, y1);
    for (const [at, alpha] of stops) fade.addColorStop(at, `rgba(74,62,52,${alpha})`);
    g.fillStyle = fade;
    g.fillRect(0, 0, 512, 256);
  };
  shade(0, 0, 0, 256, [[0, 0.3], [0.1, 0.12], [0.35, 0], [0.72, 0.05], [0.93, 0.2], [1, 0.42]]);
  shade(0, 0, 512, 0, [[0, 0.34], [0.05, 0.16], [0.22, 0.02], [0.5, 0], [0.78, 0.02], [0.95, 0.16], [1, 0.34]]);
  return coloured(made);
}

/** A ceiling with two lit panels. */
export function ceiling() {
  const [made, g] = canvas(256, 256);
  g.fillStyle = "#cfcac0";
  g.fillRect(0, 0, 256, 256);
  g.filter = "blur(9px)";
  g.fillStyle = "#fffdf6";
  for (const x of [52, 152]) g.fillRect(x, 62, 52, 132);
  g.filter = "none";
  g.fillStyle = "#ffffff";
  for (const x of [56, 156]) g.fillRect(x, 66, 44, 124);
  return coloured(made);
}

function coloured(made) {
  const texture = new CanvasTexture(made);
  texture.colorSpace = SRGBColorSpace;
  texture.anisotropy = 4;
  return texture;
}

let blobTexture = null;
/** Soft dark spot under a foot. */
export function blob() {
  if (blobTexture) return blobTexture;
  const [made, g] = canvas(128, 128);
  const fade = g.createRadialGradient(64, 64, 4, 64, 64, 62);
  fade.addColorStop(0, "rgba(255,255,255,1)");
  fade.addColorStop(0.5, "rgba(255,255,255,0.45)");
  fade.addColorStop(1, "rgba(255,255,255,0)");
  g.fillStyle = fade;
  g.fillRect(0, 0, 128, 128);
  return (blobTexture = new CanvasTexture(made));
}

/** Slanted light streaks of a glass pane. */
export function sheen() {
  const [made, g] = canvas(256, 256);
  const fade = g.createLinearGradient(0, 0, 256, 256);
  for (const [at, alpha] of [[0, 0.25], [0.2, 0.05], [0.45, 0.16], [0.52, 0.02], [1, 0.1]]) {
    fade.addColorStop(at, `rgba(255,255,255,${alpha})`);
  }
  g.fillStyle = fade;
  g.fillRect(0, 0, 256, 256);
  return new CanvasTexture(made);
}
