// One XR session: samples headset and hands in each frame and sends them.
import * as wire from "./wire.js";

const GRIP = 1; // button of the grip in the mapping "xr-standard"
// Pose of the grip in the left wrist joint (of recorded hands), for devices whose hands have no grip space.
const WRIST_GRIP = { position: { x: 0, y: -0.036, z: -0.065 }, orientation: { x: 0.5, y: -0.5, z: -0.5, w: 0.5 } };

export async function supported(mode) {
  try {
    return Boolean(await navigator.xr?.isSessionSupported(mode));
  } catch {
    return false;
  }
}

export class Tracking {
  /** onEnd(), onVisibility(state), onReset() */
  constructor(link, renderer, handlers) {
    this.link = link;
    this.renderer = renderer;
    this.handlers = handlers;
    this.writer = new wire.FrameWriter();
    this.session = null;
    this.logicMs = 0;
    this.sent = new Map(); // sequence → time, to measure the way to the pose and back
    link.hello = () => this.hello();
  }

  hello() {
    const about = { do: "about", device: navigator.userAgent.slice(0, 200), joints: this.bodyNames ?? [] };
    return this.session ? [about, this._sessionMessage()] : [about];
  }

  _sessionMessage() {
    return { do: "session", number: this.session ? this.number : 0, mode: this.mode };
  }

  async enter(mode, wantsBody) {
    const optional = ["hand-tracking", "bounded-floor"];
    if (wantsBody) optional.push("body-tracking");
    const session = await navigator.xr.requestSession(mode, {
      requiredFeatures: ["local-floor"], optionalFeatures: optional,
    });
    this.session = session;
    this.mode = mode;
    this.number = crypto.getRandomValues(new Uint32Array(1))[0] || 1;
    this.sequence = 0;
    this.wantsBody = wantsBody;
    this.pending = null; // re-centring that is not sent yet: {known, transform}
    session.addEventListener("end", () => this._ended());
    session.addEventListener("visibilitychange", () => {
      this.link.say({ do: "visibility", state: session.visibilityState });
      this.handlers.onVisibility?.(session.visibilityState);
    });
    await this.renderer.xr.setSession(session);
    this.space = this.renderer.xr.getReferenceSpace();
    this.space.addEventListener("reset", (event) => this._reset(event));
    this.link.say(this._sessionMessage());
  }

  _ended() {
    this.session = null;
    this.link.say(this._sessionMessage());
    this.handlers.onEnd?.();
  }

  _reset(event) {
    const known = Boolean(event.transform) && this.pending?.known !== false;
    let transform = null;
    if (known) {
      transform = event.transform;
      if (this.pending) {
        const before = this.pending.transform.matrix, matrix = multiply(before, transform.matrix);
        transform = fromMatrix(matrix);
      }
    }
    this.pending = { known, transform };
    this.handlers.onReset?.();
  }

  /** Sample and send; `time` is that of the callback. Returns the viewer's pose or null. */
  frame(time, frame) {
    const states = [wire.LOST, wire.LOST, wire.LOST];
    let flags = this.session.visibilityState === "visible" ? 0 : wire.BLURRED;
    if (this.mode === "immersive-ar") flags |= wire.PASSTHROUGH;
    const viewer = frame.getViewerPose(this.space);
    if (viewer) {
      this.writer.pose(0, viewer.transform);
      states[0] = viewer.emulatedPosition ? wire.EMULATED : wire.TRACKED;
    }
    for (const [k, side] of [[1, "left"], [2, "right"]]) {
      const found = this._hand(frame, side);
      if (!found) continue;
      this.writer.pose(k, found.transform);
      states[k] = found.emulated ? wire.EMULATED : wire.TRACKED;
      if (found.bare) flags |= k === 1 ? wire.LEFT_IS_HAND : wire.RIGHT_IS_HAND;
      if (found.grip) flags |= k === 1 ? wire.LEFT_GRIP : wire.RIGHT_GRIP;
    }
    const predicted = frame.predictedDisplayTime;
    const at = typeof predicted === "number" && predicted > 0 ? predicted : time;
    const pending = this.pending;
    if (pending && !pending.known) flags |= wire.RESET;
    this.sequence += 1;
    const bytes = this.writer.finish({
      states, flags, sequence: this.sequence, time: at, lead: at - time, logic: this.logicMs, session: this.number,
      moved: pending?.known ? pending.transform : null,
    });
    if (this.link.send(bytes)) {
      this.pending = null;
      this.sent.set(this.sequence, performance.now());
      if (this.sent.size > 64) this.sent.delete(this.sent.keys().next().value);
    }
    if (this.wantsBody && frame.body) this._sendBody(at, frame);
    return viewer;
  }

  /** The controller of a side, else its bare hand; null without a pose. */
  _hand(frame, side) {
    let bare = null;
    for (const source of this.session.inputSources) {
      if (source.handedness !== side || source.targetRayMode !== "tracked-pointer") continue;
      if (source.hand) {
        bare = source;
        continue;
      }
      const pose = source.gripSpace && frame.getPose(source.gripSpace, this.space);
      const grip = Boolean(source.gamepad?.buttons[GRIP]?.pressed);
      if (pose) return { transform: pose.transform, emulated: pose.emulatedPosition, bare: false, grip };
    }
    return bare && this._bareHand(frame, bare, side);
  }

  _bareHand(frame, source, side) {
    const grip = source.gripSpace && frame.getPose(source.gripSpace, this.space);
    if (grip) return { transform: grip.transform, emulated: grip.emulatedPosition, bare: true };
    const wrist = source.hand.get?.("wrist");
    const pose = wrist && frame.getJointPose?.(wrist, this.space);
    if (!pose) return null;
    const { position: p, orientation: q } = WRIST_GRIP;
    const offset = side === "left"
      ? new XRRigidTransform(p, q)
      : new XRRigidTransform({ ...p, x: -p.x }, { x: q.x, y: -q.y, z: -q.z, w: q.w });
    return { transform: fromMatrix(multiply(pose.transform.matrix, offset.matrix)), emulated: pose.emulatedPosition, bare: true };
  }

  _sendBody(time, frame) {
    const names = [], spaces = [];
    for (const [name, space] of frame.body.entries()) {
      names.push(name);
      spaces.push(space);
    }
    if (names.length !== this.bodyNames?.length) {
      this.bodyNames = names;
      this.link.say({ do: "about", device: navigator.userAgent.slice(0, 200), joints: names });
    }
    const poses = new Float32Array(7 * names.length).fill(NaN);
    spaces.forEach((space, k) => {
      const pose = frame.getPose(space, this.space);
      if (!pose) return;
      const { position: p, orientation: q } = pose.transform;
      poses.set([p.x, p.y, p.z, q.x, q.y, q.z, q.w], 7 * k);
    });
    this.link.send(wire.body(time, poses));
  }
}

/** Matrices of 16 numbers by columns. */
function multiply(a, b) {
  const out = new Float64Array(16);
  for (let c = 0; c < 4; c++) {
    for (let r = 0; r < 4; r++) {
      for (let k = 0; k < 4; k++) out[4 * c + r] += a[4 * k + r] * b[4 * c + k];
    }
  }
  return out;
}

/** Position and rotation of a rigid matrix. */
function fromMatrix(m) {
  const trace = m[0] + m[5] + m[10];
  let x, y, z, w;
  if (trace > 0) {
    const s = 2 * Math.sqrt(trace + 1);
    [x, y, z, w] = [(m[6] - m[9]) / s, (m[8] - m[2]) / s, (m[1] - m[4]) / s, s / 4];
  } else if (m[0] > m[5] && m[0] > m[10]) {
    const s = 2 * Math.sqrt(1 + m[0] - m[5] - m[10]);
    [x, y, z, w] = [s / 4, (m[1] + m[4]) / s, (m[8] + m[2]) / s, (m[6] - m[9]) / s];
  } else if (m[5] > m[10]) {
    const s = 2 * Math.sqrt(1 + m[5] - m[0] - m[10]);
    [x, y, z, w] = [(m[1] + m[4]) / s, s / 4, (m[6] + m[9]) / s, (m[8] - m[2]) / s];
  } else {
    const s = 2 * Math.sqrt(1 + m[10] - m[0] - m[5]);
    [x, y, z, w] = [(m[8] + m[2]) / s, (m[6] + m[9]) / s, s / 4, (m[1] - m[4]) / s];
  }
  return new XRRigidTransform({ x: m[12], y: m[13], z: m[14] }, { x, y, z, w });
}
