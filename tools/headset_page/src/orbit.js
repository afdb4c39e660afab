// Camera of the flat page: follows the avatar, turns by dragging, zooms by wheel or two fingers.
import { Vector3 } from "three";

const FOLLOW_S = 0.15;

export class Orbit {
  constructor(camera, element) {
    this.camera = camera;
    this.yaw = Math.PI - 0.6; // from the front
    this.pitch = 0.2;
    this.distance = 3.4;
    this.target = new Vector3(0, 0.95, 0);
    this.pointers = new Map();
    element.style.touchAction = "none";
    element.addEventListener("pointerdown", (e) => {
      element.setPointerCapture(e.pointerId);
      this.pointers.set(e.pointerId, [e.clientX, e.clientY]);
    });
    for (const name of ["pointerup", "pointercancel"]) {
      element.addEventListener(name, (e) => this.pointers.delete(e.pointerId));
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
  get worldYaw() { return this.yaw; }

  /** `at`: root of the avatar. */
  frame(at, dt) {
    const share = 1 - Math.exp(-dt / FOLLOW_S);
    const far = Math.hypot(this.target.x - at.x, this.target.z - at.z) > 3;
    this.target.x += (at.x - this.target.x) * (far ? 1 : share);
    this.target.z += (at.z - this.target.z) * (far ? 1 : share);
    const flat = Math.cos(this.pitch) * this.distance;
    this.camera.position.set(
      this.target.x + Math.sin(this.yaw) * flat,
      this.target.y + Math.sin(this.pitch) * this.distance,
      this.target.z + Math.cos(this.yaw) * flat,
    );
    this.camera.lookAt(this.target);
  }
}
