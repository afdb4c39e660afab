// The state as a picture: computer, headset with both hands, avatar, and the links between them.

const TONES = { good: "#7ddb9b", fair: "#ffd166", bad: "#ff8a80", none: "#66788d" };
const STATES = { tracked: "good", extrapolated: "fair", lost: "bad" };
export const WIDTH = 320, HEIGHT = 112; // of the drawing, before it is scaled

/** What the picture shows, for the drawing and for tests: a tone for each part and a text for each link. */
export function parts(status, linkState) {
  const connected = linkState === "connected", known = connected && status ? status : null;
  const { session, tracking, pose, calibration, control, steering } = known ?? {};
  const active = Boolean(session?.active), seen = active ? tracking : null;
  const tone = (role) => STATES[seen?.[role]] ?? "none";
  const samples = active ? `${Math.round(session.hz)} Hz` : "";
  return {
    server: connected ? "good" : "bad",
    input: control ? (steering?.own ? "good" : "none") : null, // keys or a path lead instead of a headset
    head: tone("head"),
    hands: [tone("left_hand"), tone("right_hand")],
    bare: known?.hands ?? [false, false],
    link: active ? (session.hz > 50 ? "good" : session.hz > 0 ? "fair" : "bad") : "none",
    linkText: [samples, active && session.age_ms !== undefined ? `${session.age_ms.toFixed(1)} ms` : ""],
    avatar: pose?.hz ? "good" : "none",
    avatarText: pose?.hz ? [`${Math.round(pose.hz)} Hz`, `${pose.latency_ms.toFixed(0)} ms`] : ["", ""],
    height: calibration ? (calibration.calibrated ? "good" : "fair") : "none",
    heightText: calibration?.calibrated ? `${calibration.height.toFixed(2)} m` : calibration ? "?" : "",
  };
}

/** Draw into a canvas context, whose units are those of WIDTH and HEIGHT. */
export function draw(g, status, linkState) {
  const p = parts(status, linkState);
  g.lineCap = g.lineJoin = "round";
  if (p.input) keys(g, 44, 42, p.input);
  else headset(g, 44, 42, p);
  arrow(g, 88, 128, 42, TONES[p.input ?? p.link], p.linkText);
  computer(g, 160, 42, TONES[p.server]);
  arrow(g, 192, 232, 42, TONES[p.avatar], p.avatarText);
  person(g, 270, 42, TONES[p.avatar]);
  ruler(g, 300, 42, p);
  g.fillStyle = "#9fb0c3";
  g.font = "500 12px system-ui, sans-serif";
  g.textAlign = "center";
  for (const [x, text] of [[44, p.input ? "keys" : "headset"], [160, "computer"]]) g.fillText(text, x, 104);
  g.fillText(["avatar", p.heightText].filter(Boolean).join(" · "), 274, 104);
  g.textAlign = "left";
}

function line(g, color, width, ...points) {
  g.strokeStyle = color;
  g.lineWidth = width;
  g.beginPath();
  points.forEach(([x, y], k) => (k ? g.lineTo(x, y) : g.moveTo(x, y)));
  g.stroke();
}

function box(g, x, y, w, h, r, color, filled) {
  g.beginPath();
  g.roundRect(x, y, w, h, r);
  g[filled ? "fillStyle" : "strokeStyle"] = color;
  g.lineWidth = 2.5;
  if (filled) g.fill();
  else g.stroke();
}

function headset(g, x, y, p) {
  const head = TONES[p.head];
  g.beginPath();
  g.arc(x, y - 14, 17, Math.PI, 0);
  g.strokeStyle = head;
  g.lineWidth = 3;
  g.stroke();
  box(g, x - 23, y - 17, 46, 25, 9, head, true);
  for (const side of [-1, 1]) box(g, x + side * 10 - 5, y - 9, 10, 8, 3, "#18212d", true);
  [-1, 1].forEach((side, k) => {
    const color = TONES[p.hands[k]], at = x + side * 21;
    if (p.bare[k]) {
      box(g, at - 6, y + 26, 12, 13, 4, color, true);
      for (const finger of [-4.5, -1.5, 1.5, 4.5]) line(g, color, 2.4, [at + finger, y + 27], [at + finger, y + 19]);
      line(g, color, 2.8, [at - side * 6, y + 33], [at - side * 10, y + 27]);
      return;
    }
    g.beginPath();
    g.arc(at, y + 24, 9, 0, 7);
    g.strokeStyle = color;
    g.lineWidth = 2.8;
    g.stroke();
    line(g, color, 6, [at, y + 28], [at - side * 3, y + 43]);
  });
}

function keys(g, x, y, tone) {
  for (const [dx, dy] of [[0, -12], [-20, 9], [0, 9], [20, 9]]) box(g, x + dx - 8, y + dy - 8, 16, 16, 4, TONES[tone], false);
}

function computer(g, x, y, color) {
  box(g, x - 24, y - 26, 48, 34, 5, color, false);
  line(g, color, 2.5, [x, y + 9], [x, y + 18]);
  line(g, color, 2.5, [x - 13, y + 19], [x + 13, y + 19]);
}

function person(g, x, y, color) {
  g.fillStyle = color;
  g.beginPath();
  g.arc(x, y - 27, 7.5, 0, 7);
  g.fill();
  line(g, color, 9, [x, y - 11], [x, y + 8]);
  for (const side of [-1, 1]) {
    line(g, color, 5, [x + side * 4, y - 13], [x + side * 12, y - 2], [x + side * 14, y + 10]);
    line(g, color, 6, [x + side * 3, y + 10], [x + side * 6, y + 27], [x + side * 7, y + 43]);
  }
}

function ruler(g, x, y, p) {
  const color = TONES[p.height];
  line(g, color, 2, [x, y - 33], [x, y + 44]);
  for (let k = 0; k < 7; k++) line(g, color, 2, [x, y - 33 + k * 12.8], [x + (k % 3 ? 4 : 8), y - 33 + k * 12.8]);
}

function arrow(g, from, to, y, color, texts) {
  line(g, color, 3, [from, y], [to, y]);
  line(g, color, 3, [to - 7, y - 6], [to, y], [to - 7, y + 6]);
  g.fillStyle = "#ffffff";
  g.font = "600 12px system-ui, sans-serif";
  g.textAlign = "center";
  g.fillText(texts[0], (from + to) / 2, y - 11);
  g.fillText(texts[1], (from + to) / 2, y + 22);
  g.textAlign = "left";
}
