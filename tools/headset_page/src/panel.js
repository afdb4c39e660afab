// Panel in VR: status and buttons on a board beside the mirror, pressed with the ray of a controller or a hand.
import { CanvasTexture, Group, Mesh, MeshBasicMaterial, PlaneGeometry, Raycaster, RingGeometry, SRGBColorSpace, Vector3 } from "three";
import * as picture from "./picture.js";
import { rows } from "./words.js";

const W = 960, H = 980, METRES = 1.0, PICTURE = 2.1; // pixels, metres across, scale of the picture
const TONES = { good: "#7ddb9b", fair: "#ffd166", bad: "#ff8a80" };
const COUNT_S = 4;

export class VrPanel {
  /** actions: {calibrate(), choose(name, value), leave()} */
  constructor(actions) {
    this.actions = actions;
    this.canvas = document.createElement("canvas");
    this.canvas.width = W;
    this.canvas.height = H;
    this.texture = new CanvasTexture(this.canvas);
    this.texture.colorSpace = SRGBColorSpace;
    this.group = new Group();
    this.board = new Mesh(
      new PlaneGeometry(METRES, (METRES * H) / W),
      new MeshBasicMaterial({ map: this.texture, transparent: true, fog: false, toneMapped: false }),
    );
    this.board.renderOrder = 6;
    this.dot = new Mesh(
      new RingGeometry(0.006, 0.012, 24),
      new MeshBasicMaterial({ color: 0xffffff, depthTest: false, transparent: true, fog: false, toneMapped: false }),
    );
    this.dot.renderOrder = 7;
    this.dot.visible = false;
    this.group.add(this.board, this.dot);
    this.group.visible = false;
    this.buttons = [];
    this.message = null;
    this.countUntil = 0;
    this.drawnAt = -1e9;
    this.ray = new Raycaster();
  }

  /** Beside the mirror, turned towards the user. */
  place(feet, yaw) {
    const right = new Vector3(Math.cos(yaw), 0, -Math.sin(yaw)), ahead = new Vector3(-Math.sin(yaw), 0, -Math.cos(yaw));
    this.group.position.copy(feet).addScaledVector(ahead, 1.12).addScaledVector(right, -1.22).setY(1.3);
    this.group.lookAt(feet.x, 1.45, feet.z);
  }

  say(text, good) {
    this.message = { text, good, until: performance.now() + 9000 };
    this.drawnAt = -1e9;
  }

  startCalibration() {
    this.countUntil = performance.now() + COUNT_S * 1000;
    this.drawnAt = -1e9;
  }

  /** Where a ray of [origin, direction] meets the board, as pixels; null if it does not. */
  hit(origin, direction) {
    this.ray.set(origin, direction);
    const found = this.ray.intersectObject(this.board, false)[0];
    if (!found) return null;
    return { x: found.uv.x * W, y: (1 - found.uv.y) * H, point: found.point };
  }

  hover(hit) {
    this.dot.visible = Boolean(hit);
    if (hit) this.dot.position.copy(this.group.worldToLocal(hit.point.clone())).setZ(0.004);
    const over = hit ? this.buttons.findIndex((b) => inside(b, hit)) : -1;
    if (over !== this.over) {
      this.over = over;
      this.drawnAt = -1e9;
    }
  }

  press(hit) {
    const button = hit && this.buttons.find((b) => inside(b, hit));
    button?.press();
    return Boolean(button);
  }

  frame(now, status, linkState) {
    if (this.countUntil && now >= this.countUntil) {
      this.countUntil = 0;
      this.actions.calibrate();
    }
    if (now - this.drawnAt < (this.countUntil ? 200 : 500)) return;
    this.drawnAt = now;
    this._draw(now, status, linkState);
    this.texture.needsUpdate = true;
  }

  _draw(now, status, linkState) {
    const g = this.canvas.getContext("2d");
    g.clearRect(0, 0, W, H);
    rounded(g, 0, 0, W, H, 36, "rgba(18,24,33,0.93)");
    g.textBaseline = "middle";
    g.fillStyle = "#ffffff";
    g.font = "600 44px system-ui, sans-serif";
    g.fillText("Your avatar", 44, 58);
    g.save();
    g.translate((W - PICTURE * picture.WIDTH) / 2, 92);
    g.scale(PICTURE, PICTURE);
    picture.draw(g, status, linkState);
    g.restore();
    g.textBaseline = "middle";
    let y = 366;
    for (const [name, text, tone] of rows(status, linkState).filter(([n]) => !["Pages", "Server"].includes(n) || linkState !== "connected").slice(0, 6)) {
      g.fillStyle = TONES[tone];
      g.beginPath();
      g.arc(56, y, 8, 0, 7);
      g.fill();
      g.fillStyle = "#9fb0c3";
      g.font = "500 31px system-ui, sans-serif";
      g.fillText(name, 80, y);
      g.fillStyle = "#ffffff";
      g.font = "400 31px system-ui, sans-serif";
      y = wrapped(g, text, 268, y, W - 308, 38) + 50;
    }
    this._note(g, now);
    this.buttons = this._layout(status);
    this.buttons.forEach((b, k) => {
      rounded(g, b.x, b.y, b.w, b.h, 20, k === this.over ? "#4f83ff" : b.quiet ? "#2a3544" : "#2f62d8");
      g.fillStyle = "#ffffff";
      g.font = "600 30px system-ui, sans-serif";
      g.textAlign = "center";
      g.fillText(fitted(g, b.text, b.w - 24), b.x + b.w / 2, b.y + b.h / 2 + 1);
      g.textAlign = "left";
    });
  }

  _note(g, now) {
    let text = "", tone = "#ffffff";
    if (this.countUntil) {
      text = `Stand upright, look straight ahead … ${Math.ceil((this.countUntil - now) / 1000)}`;
      tone = TONES.fair;
    } else if (this.message && now < this.message.until) {
      text = this.message.text;
      tone = this.message.good ? TONES.good : TONES.bad;
    }
    g.fillStyle = tone;
    g.font = "500 29px system-ui, sans-serif";
    wrapped(g, text, 44, 728, W - 88, 36);
  }

  _layout(status) {
    const out = [
      { x: 44, y: 790, w: 420, h: 76, text: this.countUntil ? "Measuring …" : "Calibrate", press: () => this.startCalibration() },
      { x: 496, y: 790, w: 420, h: 76, text: "Leave", quiet: true, press: () => this.actions.leave() },
    ];
    [["database", "Motion"], ["engine", "Engine"]].forEach(([name, title], k) => {
      const choice = status?.choices?.[name];
      if (!choice?.all?.length) return;
      const next = choice.all[(choice.all.indexOf(choice.now) + 1) % choice.all.length];
      out.push({
        x: 44 + 452 * k, y: 880, w: 420, h: 76, quiet: true, text: `${title}: ${choice.now ?? "…"}`,
        press: () => choice.all.length > 1 && this.actions.choose(name, next),
      });
    });
    return out;
  }
}

function inside(b, at) {
  return at.x >= b.x && at.x <= b.x + b.w && at.y >= b.y && at.y <= b.y + b.h;
}

function rounded(g, x, y, w, h, r, color) {
  g.fillStyle = color;
  g.beginPath();
  g.roundRect(x, y, w, h, r);
  g.fill();
}

function fitted(g, text, width) {
  let out = text;
  while (g.measureText(out).width > width && out.length > 4) out = `${out.slice(0, -2)}…`;
  return out;
}

/** Draw text in at most two lines; returns the y of the last one. */
function wrapped(g, text, x, y, width, line) {
  const words = text.split(" ");
  let row = "", drawn = 0;
  for (const word of words) {
    const longer = row ? `${row} ${word}` : word;
    if (g.measureText(longer).width > width && row && drawn === 0) {
      g.fillText(row, x, y);
      y += line;
      drawn = 1;
      row = word;
    } else row = longer;
  }
  g.fillText(fitted(g, row, width), x, y);
  return y;
}
