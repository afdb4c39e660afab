// The headset page: flat view of the avatar, and VR with a mirror.
import { PerspectiveCamera, Vector3 } from "three";
import { Avatar } from "./avatar.js";
import { Link } from "./link.js";
import { Orbit } from "./orbit.js";
import { VrPanel } from "./panel.js";
import { PathView } from "./path.js";
import { Room } from "./scene.js";
import { Steering } from "./steering.js";
import * as wire from "./wire.js";
import * as picture from "./picture.js";
import { rows } from "./words.js";
import { supported, Tracking } from "./xr.js";

const $ = (id) => document.getElementById(id);
const SMOOTH = 0.02, NARROW_PX = 600;
const HOW = {
  keyboard: "W A S D or the arrows move, Shift jogs, Space sprints, F faces ahead while moving, Q and E turn the view. "
    + "A gamepad works too: left stick, right stick for the view, right shoulder to jog, A to sprint.",
  path: "Click on the floor: the avatar walks there. With Shift: after the points that are still ahead. Drag to turn the view.",
};

class App {
  constructor() {
    this.room = new Room($("view"));
    this.camera = new PerspectiveCamera(42, 1, 0.05, 60);
    this.orbit = new Orbit(this.camera, $("view"));
    this.avatar = new Avatar();
    this.avatar.mirroredMaterial = this.room.behindPane(this.avatar.material);
    this.room.scene.add(this.avatar.room, this.avatar.mirrored);
    this.status = null;
    this.pose = null;
    this.shown = null;
    this.backMs = 0; // from a sample to its pose back in the page
    this.back = []; // the last of these times, for measurements
    this.panel = new VrPanel({
      calibrate: () => this.link.say({ do: "calibrate" }),
      choose: (name, value) => this.link.say({ do: name, value }),
      leave: () => this.tracking.session?.end(),
    });
    this.room.scene.add(this.panel.group);
    this.link = new Link({
      onPose: (pose) => this._takePose(pose),
      onStatus: (status) => this._takeStatus(status),
      onAnswer: (answer) => this._takeAnswer(answer),
      onState: () => this._showStatus(),
    });
    this.tracking = new Tracking(this.link, this.room.renderer, {
      onEnd: () => this._leftVr(),
      onReset: () => (this.placed = false),
      onVisibility: () => this._showStatus(),
    });
    this.path = new PathView(this.room.scene);
    this.orbit.onClick = (event) => this._click(event);
    this.steering = new Steering(this.link, this.orbit, $("stick"));
    this._buttons();
    this.room.show("flat");
    this.avatar.firstPerson(false);
    addEventListener("resize", () => this._resize());
    this._resize();
    this.last = performance.now();
    this.room.renderer.setAnimationLoop((time, frame) => this._frame(time, frame));
  }

  // ---- messages

  _takePose(pose) {
    this.pose = pose;
    this.steering?.answered(pose.sequence);
    if (this.steers && !this.placedBehind) this._lookFromBehind(pose);
    const sent = this.tracking.sent.get(pose.sequence);
    if (sent !== undefined) {
      this.tracking.sent.delete(pose.sequence);
      const ms = performance.now() - sent;
      this.backMs += SMOOTH * (ms - this.backMs);
      this.back.push(ms);
      if (this.back.length > 60000) this.back.splice(0, 10000);
    }
  }

  /** Facing of the avatar's root: joint 0, x, y, z, qx, qy, qz, qw in ROS axes. */
  _lookFromBehind(pose) {
    const [, , , x, y, z, w] = pose.joints;
    this.orbit.behind(Math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)));
    this.placedBehind = true;
    if (innerWidth < NARROW_PX) $("panel").open = false;
  }

  /** What leads the avatar: undefined for a headset, else "keyboard" or "path". */
  get steers() { return this.status?.control; }

  _takeStatus(status) {
    this.status = status;
    this.path.show(status.path);
    this.steering.enabled = Boolean(status.steering);
    this._showStatus();
  }

  /** Walk to a point of the floor. */
  _click(event) {
    if (this.steers !== "path") return;
    const at = this.path.pointed(event, this.camera);
    if (at) this.link.say({ do: "goal", x: at[0], y: at[1], add: event.shiftKey || $("add").checked });
  }

  _takeAnswer({ text, good }) {
    this.panel.say(text, good);
    const note = $("note");
    note.textContent = text;
    note.className = good ? "good" : "bad";
    clearTimeout(this.noteTimer);
    this.noteTimer = setTimeout(() => (note.textContent = ""), 9000);
  }

  // ---- flat page

  _buttons() {
    $("vr").onclick = () => this.enter("immersive-vr");
    $("ar").onclick = () => this.enter("immersive-ar");
    $("panel").ontoggle = () => this._resize();
    $("calibrate").onclick = () => this._countDown();
    $("again").onclick = () => this.link.takeBack();
    for (const name of ["database", "engine"]) {
      $(name).onchange = (event) => {
        this.link.say({ do: name, value: event.target.value });
        event.target.blur(); // the next keys steer
      };
    }
    this.look();
    navigator.xr?.addEventListener?.("devicechange", () => this.look());
  }

  /** Find out what this browser can do. */
  async look() {
    const [vr, ar] = await Promise.all([supported("immersive-vr"), supported("immersive-ar")]);
    this.hasVr = vr;
    this.hasAr = ar;
    this.hasHeadset = vr || ar;
    const why = isSecureContext
      ? "This browser has no headset: you watch. Open the same address in the headset's browser to enter VR."
      : "The browser does not trust this connection, so it offers no VR: open the page by https or over USB.";
    this.why = this.hasHeadset ? "" : why;
    this._showStatus();
  }

  _countDown() {
    let left = 3;
    const step = () => {
      if (left === 0) {
        $("calibrate").textContent = "Calibrate";
        this.link.say({ do: "calibrate" });
        return;
      }
      $("calibrate").textContent = `Stand upright … ${left--}`;
      setTimeout(step, 1000);
    };
    step();
  }

  _showStatus() {
    if (!this.link) return; // the first state comes while the link is made
    this._drawPicture();
    const list = $("status");
    list.replaceChildren(
      ...rows(this.status, this.link.state).flatMap(([name, text, tone]) => {
        const dt = document.createElement("dt"), dd = document.createElement("dd");
        dt.textContent = name;
        dt.className = tone;
        dd.textContent = text;
        return [dt, dd];
      }),
    );
    const steers = this.steers;
    $("vr").hidden = $("body-row").hidden = !this.hasVr || Boolean(steers);
    $("ar").hidden = !this.hasAr || Boolean(steers);
    $("add-row").hidden = steers !== "path";
    $("calibrate").hidden = Boolean(steers);
    $("why").textContent = HOW[steers] ?? this.why ?? "";
    $("steers").textContent = this.status?.steering?.other ? "Another page steers; press a key to take over." : "";
    $("stick").hidden = !this.status?.steering || !matchMedia("(pointer: coarse)").matches;
    if (this.link.state !== "connected") this.steering?.stop();
    $("again").hidden = !["taken over"].includes(this.link.state) && !this.link.state.startsWith("closed");
    for (const name of ["database", "engine"]) this._choices(name, this.status?.choices?.[name]);
    const inspector = this.status?.inspector;
    // The inspector listens on this machine only, so a headset has no link to it.
    $("inspector").hidden = !(inspector && !this.hasHeadset && ["localhost", "127.0.0.1"].includes(location.hostname));
    if (inspector) $("inspector").href = inspector;
  }

  /** What the picture of the state shows. */
  get picture() { return picture.parts(this.status, this.link.state); }

  _drawPicture() {
    const canvas = $("picture"), scale = Math.min(devicePixelRatio, 2) * 1.2;
    canvas.width = Math.round(picture.WIDTH * scale);
    canvas.height = Math.round(picture.HEIGHT * scale);
    const g = canvas.getContext("2d");
    g.scale(scale, scale);
    picture.draw(g, this.status, this.link.state);
  }

  _choices(name, choice) {
    const select = $(name);
    select.parentElement.hidden = !(choice?.all?.length > 1);
    if (!choice) return;
    if ([...select.options].map((o) => o.value).join("\n") !== choice.all.join("\n")) {
      select.replaceChildren(...choice.all.map((label) => new Option(label, label)));
    }
    if (document.activeElement !== select && choice.now) select.value = choice.now;
  }

  _resize() {
    if (this.room.renderer.xr.isPresenting) return;
    this.room.renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
    this.room.renderer.setSize(innerWidth, innerHeight, false);
    this.camera.aspect = innerWidth / Math.max(1, innerHeight);
    // The avatar stands in the middle of what the panel leaves free.
    const free = $("panel").open ? Math.min($("panel").getBoundingClientRect().right, innerWidth / 2) : 0;
    this.camera.setViewOffset(innerWidth, innerHeight, -free / 2, 0, innerWidth, innerHeight);
  }

  // ---- VR

  async enter(mode) {
    if (this.tracking.session || this.entering) return;
    this.entering = true;
    try {
      await this.tracking.enter(mode, $("body").checked);
      const session = this.tracking.session;
      session.addEventListener("select", (event) => this._select(event));
      this.placed = false;
      this.room.show(mode === "immersive-ar" ? "ar" : "vr");
      this.avatar.firstPerson(true);
      this.panel.group.visible = true;
      document.body.classList.add("inside");
    } catch (error) {
      this._takeAnswer({ good: false, text: `The headset did not start the session: ${error.message}` });
    } finally {
      this.entering = false;
    }
  }

  _leftVr() {
    this.room.show("flat");
    this.avatar.firstPerson(false);
    this.panel.group.visible = false;
    document.body.classList.remove("inside");
    this._resize();
    this._showStatus();
  }

  _select(event) {
    this.panel.press(this._pointed(event.frame, event.inputSource));
  }

  _pointed(frame, source) {
    const pose = frame.getPose(source.targetRaySpace, this.tracking.space);
    if (!pose) return null;
    const m = pose.transform.matrix;
    return this.panel.hit(new Vector3(m[12], m[13], m[14]), new Vector3(-m[8], -m[9], -m[10]).normalize());
  }

  _hover(frame) {
    let found = null;
    for (const source of this.tracking.session.inputSources) {
      if (source.targetRayMode === "tracked-pointer") found ??= this._pointed(frame, source);
    }
    this.panel.hover(found);
  }

  /** Put mirror and panel in front of the user, once the first pose of the head is there. */
  _place(viewer) {
    const { position: p, orientation: q } = viewer.transform;
    const yaw = Math.atan2(2 * (q.x * q.z + q.w * q.y), 1 - 2 * (q.x * q.x + q.y * q.y));
    const feet = new Vector3(p.x, 0, p.z);
    this.room.place(feet, yaw);
    this.panel.place(feet, yaw);
    this.placed = true;
  }

  // ---- frames

  _frame(time, frame) {
    const began = performance.now(), dt = Math.min(0.1, (began - this.last) / 1000);
    this.last = began;
    const inside = Boolean(this.tracking.session && frame);
    this.link.retry();
    if (inside) {
      const viewer = this.tracking.frame(time, frame);
      if (viewer && !this.placed) this._place(viewer);
      this._hover(frame);
      this.panel.frame(began, this.status, this.link.state);
    } else {
      if (this.link.open) this.link.send(wire.tick());
      this.steering.frame(dt);
    }
    if (this.pose) this.avatar.show(this.pose, inside, inside ? this.room.reflection : null);
    if (this.avatar.copy && this.avatar.copy.material !== this.avatar.mirroredMaterial) {
      this.avatar.copy.material = this.avatar.mirroredMaterial;
      for (const foot of this.avatar.feet[1]) foot.material = this.room.behindPane(foot.material);
    }
    if (!inside) {
      this.orbit.frame(this.avatar.root, dt);
      this.room.surroundings.position.set(this.avatar.root.x, 0, this.avatar.root.z);
      this.room.surroundings.children[0].material.map.offset.set(this.avatar.root.x / 2, -this.avatar.root.z / 2);
      this.room.light(this.avatar.root, new Vector3(Math.cos(this.orbit.yaw), 0, -Math.sin(this.orbit.yaw)));
    }
    this.tracking.logicMs = performance.now() - began;
    this.room.renderer.render(this.room.scene, this.camera);
    document.body.dataset.frames = String(++this.frames);
  }

  frames = 0;
}

window.mmRosPage = new App();
