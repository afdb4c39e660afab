// Camera of the flat page: a spring follows the avatar; dragging turns it, the wheel or two fingers zoom.
import { Vector3 } from "three";

const HALFLIFE_S = 0.1, FAR_M = 3; // beyond FAR_M it jumps
const CLICK_PX = 6, CLICK_MS = 400;

export class Orbit {
  constructor(camera, element) {
    this.camera = camera;
    this.yaw = Math.PI - 0.6; // from the front
    this.pitch = 0.2;
    this.distance = 3.4;
    this.target = new Vector3(0, 0.95, 0);
    this.velocity = new Vector3();
    this.onClick = () => {}; // (event), for a press without a drag
    this.pointers = new Map();
    element.style.touchAction = "none";
    element.addEventListener("pointerdown", (e) => {
      element.setPointerCapture(e.pointerId);
      this.pointers.set(e.pointerId, [e.clientX, e.clientY]);
      this.pressed = this.pointers.size === 1 && e.button === 0 ? e : null;
    });
    for (const name of ["pointerup", "pointercancel"]) {
      element.addEventListener(name, (e) => {
        this.pointers.delete(e.pointerId);
        const p = this.pressed;
        this.pressed = null;
        if (name === "pointercancel" || !p || e.timeStamp - p.timeStamp > CLICK_MS) return;
        if (Math.hypot(e.clientX - p.clientX, e.clientY - p.clientY) < CLICK_PX) this.onClick(e);
      });
    }
    element.addEventListener("pointermove", (e) => this._move(e));
    element.addEventListener("wheel", (e) => {
      e.preventDefault();
      this.zoom(Math.exp(e.deltaY * 0.001));
    }, { passive: false });
  }

  zoom(factor) {
    this.distance = Math.min(12, Math.max(0.8, this.distance * factor));
  }

  _move(e) {
    const before = this.pointers.get(e.pointerId);
    if (!before) return;
    const others = [...this.pointers].filter(([id]) => id !== e.pointerId).map(([, at]) => at);
    if (others.length) {
      const away = (a) => Math.hypot(a[0] - others[0][0], a[1] - others[0][1]);
      this.zoom(away(before) / Math.max(1, away([e.clientX, e.clientY])));
    } else {
      this.turn(-(e.clientX - before[0]) * 0.006, (e.clientY - before[1]) * 0.005);
    }
    this.pointers.set(e.pointerId, [e.clientX, e.clientY]);
  }

  turn(yaw, pitch) {
    this.yaw += yaw;
    this.pitch = Math.min(1.4, Math.max(-0.05, this.pitch + pitch));
  }

  /** Direction of the camera in the world of ROS [rad]; 0 along x, which is -z here. */
  get worldYaw() { return Math.atan2(Math.sin(this.yaw), Math.cos(this.yaw)); }

  /** Look from behind at an avatar with this facing [rad]. */
  behind(yaw) {
    Object.assign(this, { yaw, pitch: 0.32, distance: 4.2 });
  }

  /** `at`: root of the avatar. */
  frame(at, dt) {
    // Critically damped, and exact for each dt.
    const rate = (2 * Math.LN2) / HALFLIFE_S, decay = Math.exp(-rate * dt);
    const far = Math.hypot(this.target.x - at.x, this.target.z - at.z) > FAR_M;
    for (const k of ["x", "z"]) {
      const away = this.target[k] - at[k], drive = this.velocity[k] + away * rate;
      this.target[k] = far ? at[k] : at[k] + decay * (away + drive * dt);
      this.velocity[k] = far ? 0 : decay * (this.velocity[k] - drive * rate * dt);
    }
    const flat = Math.cos(this.pitch) * this.distance;
    this.camera.position.set(
      this.target.x + Math.sin(this.yaw) * flat,
      this.target.y + Math.sin(this.pitch) * this.distance,
      this.target.z + Math.cos(this.yaw) * flat,
    );
    this.camera.lookAt(this.target);
  }
}
