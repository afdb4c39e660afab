// Binary messages; mm_ros/web/headset/wire.py describes them and is the other side.

export const FRAME = 1, PONG = 2, TICK = 3, BODY = 4, STEER = 5;
export const PING = 1, POSE = 2;
export const LEFT_IS_HAND = 1, RIGHT_IS_HAND = 2, BLURRED = 4, PASSTHROUGH = 8, MOVED = 16, RESET = 32;
export const LEFT_GRIP = 64, RIGHT_GRIP = 128;
export const LOST = 0, EMULATED = 1, TRACKED = 2;
export const POSE_JOINTS = 44; // bytes before the joints

const tickMessage = new Uint8Array([TICK, 0, 0, 0]);
export const tick = () => tickMessage;

export function pong(id, now) {
  const view = new DataView(new ArrayBuffer(16));
  view.setUint8(0, PONG);
  view.setUint32(4, id, true);
  view.setFloat64(8, now, true);
  return view.buffer;
}

/** Writes samples into one buffer that is used again for each frame. */
export class FrameWriter {
  constructor() {
    this.buffer = new ArrayBuffer(140);
    this.view = new DataView(this.buffer);
    this.short = new Uint8Array(this.buffer, 0, 112);
    this.long = new Uint8Array(this.buffer, 0, 140);
  }

  pose(device, transform) {
    this._transform(24 + 28 * device, transform);
  }

  _transform(at, { position: p, orientation: q }) {
    const v = this.view;
    v.setFloat32(at, p.x, true); v.setFloat32(at + 4, p.y, true); v.setFloat32(at + 8, p.z, true);
    v.setFloat32(at + 12, q.x, true); v.setFloat32(at + 16, q.y, true);
    v.setFloat32(at + 20, q.z, true); v.setFloat32(at + 24, q.w, true);
  }

  finish({ states, flags, sequence, time, lead, logic, session, moved }) {
    const v = this.view;
    v.setUint8(0, FRAME);
    v.setUint8(1, states[0] | (states[1] << 2) | (states[2] << 4));
    v.setUint8(2, flags | (moved ? MOVED : 0));
    v.setUint8(3, 0);
    v.setUint32(4, sequence, true);
    v.setFloat64(8, time, true);
    v.setFloat32(16, lead, true);
    v.setFloat32(20, logic, true);
    v.setUint32(108, session, true);
    if (!moved) return this.short;
    this._transform(112, moved);
    return this.long;
  }
}

const JOG = 1, SPRINT = 2, STRAFE = 4, ACTIVE = 8, TAKES = 16;

/** Input of keys, gamepad or touch stick: sticks between -1 and 1, and the direction of the camera in the world [rad]. */
export function steer({ sequence, forward, left, cameraYaw, jog, sprint, strafe, active, takes }) {
  const view = new DataView(new ArrayBuffer(20));
  view.setUint8(0, STEER);
  view.setUint8(1, jog * JOG | sprint * SPRINT | strafe * STRAFE | active * ACTIVE | takes * TAKES);
  view.setUint32(4, sequence, true);
  [forward, left, cameraYaw].forEach((value, k) => view.setFloat32(8 + 4 * k, value, true));
  return view.buffer;
}

export function body(time, poses) {
  const buffer = new ArrayBuffer(12 + 4 * poses.length);
  const view = new DataView(buffer);
  view.setUint8(0, BODY);
  view.setFloat64(4, time, true);
  new Uint8Array(buffer, 12).set(new Uint8Array(poses.buffer, poses.byteOffset, poses.byteLength));
  return buffer;
}

/** The avatar: joints are x, y, z, qx, qy, qz, qw in the world, in ROS axes. */
export function readPose(buffer) {
  const view = new DataView(buffer);
  return {
    feet: view.getUint8(1),
    sequence: view.getUint32(4, true),
    skeleton: view.getUint32(8, true),
    ageMs: view.getFloat32(12, true),
    sourceFromMap: new Float32Array(buffer, 16, 7),
    joints: new Float32Array(buffer, POSE_JOINTS, 7 * view.getUint16(2, true)),
  };
}
