// Input that steers a character: keys, gamepad, touch stick. `wire.steer` is its message; its directions are relative
// to the camera. The server lets the page steer whose user has begun last.
import * as wire from "./wire.js";

const MOVES = {
  KeyW: [1, 0], ArrowUp: [1, 0], KeyS: [-1, 0], ArrowDown: [-1, 0],
  KeyA: [0, 1], ArrowLeft: [0, 1], KeyD: [0, -1], ArrowRight: [0, -1],
};
const TURNS = { KeyQ: 1, KeyE: -1 };
const JOG = ["ShiftLeft", "ShiftRight"], SPRINT = ["Space"], STRAFE = ["KeyF"];
const KNOWN = new Set([...Object.keys(MOVES), ...Object.keys(TURNS), ...JOG, ...SPRINT, ...STRAFE]);
// Of the standard gamepad: A sprints, the shoulder buttons strafe and jog.
const PAD_SPRINT = 0, PAD_STRAFE = 4, PAD_JOG = 5;
const DEAD_ZONE = 0.15, TURN_RAD_S = 1.9, PITCH_RAD_S = 1.2;
const REPEAT_MS = 50; // the server forgets input after 0.5 s
const KEPT = 60000;

export class Steering {
  /** `element`: the touch stick. */
  constructor(link, orbit, element) {
    this.link = link;
    this.orbit = orbit;
    this.enabled = false;
    this.keys = new Set();
    this.touch = [0, 0];
    this.sequence = 0;
    this.begun = false; // input is going on
    this.asked = null; // the last key that no pose has answered
    this.back = []; // times from a key to the first pose that follows it [ms], for measurements
    addEventListener("keydown", (e) => this._key(e, true));
    addEventListener("keyup", (e) => this._key(e, false));
    for (const name of ["blur", "pagehide"]) addEventListener(name, () => this.stop());
    document.addEventListener("visibilitychange", () => document.hidden && this.stop());
    setInterval(() => this.send(false), REPEAT_MS);
    this._stick(element);
  }

  // ---- devices

  _key(event, down) {
    if (!this.enabled || !KNOWN.has(event.code) || event.ctrlKey || event.altKey || event.metaKey) return;
    if (down && /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    event.preventDefault();
    if (event.repeat || this.keys.has(event.code) === down) return;
    if (down) this.keys.add(event.code);
    else this.keys.delete(event.code);
    if (event.code in TURNS) return; // turns the view only
    this.send(down, event.timeStamp);
  }

  _stick(element) {
    const knob = element.firstElementChild;
    const move = (e) => {
      const box = element.getBoundingClientRect(), half = box.width / 2;
      const x = (e.clientX - box.left) / half - 1, y = (e.clientY - box.top) / half - 1;
      const size = Math.max(1, Math.hypot(x, y));
      this.touch = [-y / size, -x / size];
      knob.style.transform = `translate(${(x / size) * half * 0.6}px, ${(y / size) * half * 0.6}px)`;
    };
    element.addEventListener("pointerdown", (e) => {
      element.setPointerCapture(e.pointerId);
      move(e);
      this.send(true, e.timeStamp);
    });
    element.addEventListener("pointermove", (e) => element.hasPointerCapture(e.pointerId) && move(e));
    for (const name of ["pointerup", "pointercancel"]) {
      element.addEventListener(name, () => {
        this.touch = [0, 0];
        knob.style.transform = "";
        this.send(false);
      });
    }
  }

  _held(codes) { return codes.some((code) => this.keys.has(code)); }

  /** State of all devices. */
  read() {
    const pad = [...(navigator.getGamepads?.() ?? [])].find((p) => p?.connected && p.mapping === "standard");
    const axis = (k) => (Math.abs(pad?.axes[k] ?? 0) > DEAD_ZONE ? pad.axes[k] : 0);
    const pressed = (k) => Boolean(pad?.buttons[k]?.pressed);
    let [forward, left] = [this.touch[0], this.touch[1]];
    for (const code of this.keys) {
      forward += MOVES[code]?.[0] ?? 0;
      left += MOVES[code]?.[1] ?? 0;
    }
    forward -= axis(1);
    left -= axis(0);
    const size = Math.max(1, Math.hypot(forward, left));
    let turn = -axis(2);
    for (const code of this.keys) turn += TURNS[code] ?? 0;
    return {
      forward: forward / size, left: left / size, turn, pitch: axis(3),
      jog: this._held(JOG) || pressed(PAD_JOG), sprint: this._held(SPRINT) || pressed(PAD_SPRINT),
      strafe: this._held(STRAFE) || pressed(PAD_STRAFE),
    };
  }

  // ---- messages

  /** Send the state while there is input, and once when it ends. `takes`: the user has just begun. */
  send(takes, at = 0) {
    if (!this.enabled || document.hidden) return;
    const input = this.read(), active = Boolean(input.forward || input.left || input.strafe);
    if (!active && !this.begun) return;
    takes ||= active && !this.begun;
    this.begun = active;
    this._say({ ...input, active: true, takes: takes && active });
    if (at) this.asked = { sequence: this.sequence, at };
  }

  stop() {
    this.keys.clear();
    this.touch = [0, 0];
    if (this.begun) this._say({ forward: 0, left: 0, active: false });
    this.begun = false;
  }

  _say(input) {
    this.sequence = (this.sequence + 1) >>> 0;
    this.link.send(wire.steer({ ...input, sequence: this.sequence, cameraYaw: this.orbit.worldYaw }));
  }

  /** A pose came that follows the input with this number. */
  answered(sequence) {
    if (!this.asked || sequence < this.asked.sequence) return;
    this.back.push(performance.now() - this.asked.at);
    this.asked = null;
    if (this.back.length > KEPT) this.back.splice(0, KEPT / 4);
  }

  // ---- frames

  /** Called for each frame of the flat page; turns the view. */
  frame(dt) {
    if (!this.enabled) return;
    const { turn, pitch } = this.read();
    this.orbit.turn(turn * TURN_RAD_S * dt, pitch * PITCH_RAD_S * dt);
  }
}
