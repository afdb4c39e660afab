// Room, light and mirror, in metres and in WebXR axes (x right, y up, z back).
import {
  AlwaysStencilFunc, BackSide, BoxGeometry, CircleGeometry, Color, DirectionalLight, DoubleSide, EqualStencilFunc, Fog,
  Group, HemisphereLight, Matrix4, Mesh, MeshBasicMaterial, MeshStandardMaterial, NeutralToneMapping, PCFShadowMap,
  PlaneGeometry, ReplaceStencilOp, Scene, Shape, ShapeGeometry, ShaderMaterial, SphereGeometry, Vector3, WebGLRenderer,
} from "three";
import { ceiling, planks, plaster, sheen } from "./textures.js";

const WIDTH = 1.7, LOW = 0.06, HIGH = 2.16; // of the mirror
const HALF_ROOM = 3.4, DEPTH = 5.2, HEIGHT = 2.9; // of the room in front of the mirror
const HORIZON = new Color(0xb9c6d3), ZENITH = new Color(0x5f7fa8), NADIR = new Color(0x8f8a80);
export const MIRROR_AWAY = 1.6;

export class Room {
  constructor(canvas) {
    this.renderer = new WebGLRenderer({
      canvas, antialias: true, alpha: true, stencil: true, powerPreference: "high-performance",
    });
    const r = this.renderer;
    r.toneMapping = NeutralToneMapping;
    r.shadowMap.enabled = true;
    r.shadowMap.type = PCFShadowMap;
    r.xr.enabled = true;
    r.xr.setReferenceSpaceType("local-floor");
    this.scene = new Scene();
    this.fog = this.scene.fog = new Fog(HORIZON, 5, 15);
    this.surroundings = new Group();
    this.surroundings.add(this._floor(), sky());
    this.scene.add(this.surroundings);
    this._lights();
    this._mirror();
    this._walls();
    this.place(new Vector3(0, 0, 0), 0);
  }

  _floor() {
    const map = planks();
    map.repeat.set(15, 15);
    const floor = new Mesh(new CircleGeometry(15, 64), new MeshStandardMaterial({ map, roughness: 0.78 }));
    floor.rotation.x = -Math.PI / 2;
    floor.receiveShadow = true;
    return floor;
  }

  _lights() {
    this.scene.add(new HemisphereLight(0xdfeaf6, 0x8d7a63, 1.5));
    const sun = (this.sun = new DirectionalLight(0xfff3e0, 2.4));
    sun.castShadow = true;
    sun.shadow.mapSize.set(1024, 1024);
    Object.assign(sun.shadow.camera, { left: -3.2, right: 3.2, top: 3.2, bottom: -3.2, near: 0.5, far: 12 });
    sun.shadow.bias = -0.0006;
    sun.shadow.normalBias = 0.02;
    sun.shadow.radius = 4;
    const fill = (this.fill = new DirectionalLight(0xcfe0ff, 0.7));
    this.scene.add(sun, sun.target, fill, fill.target);
  }

  _mirror() {
    const mirror = (this.mirror = new Group());
    const wall = new Shape();
    const half = WIDTH / 2;
    wall.moveTo(-HALF_ROOM, 0).lineTo(HALF_ROOM, 0).lineTo(HALF_ROOM, HEIGHT).lineTo(-HALF_ROOM, HEIGHT).lineTo(-HALF_ROOM, 0);
    const hole = new Shape();
    hole.moveTo(-half, LOW).lineTo(half, LOW).lineTo(half, HIGH).lineTo(-half, HIGH).lineTo(-half, LOW);
    wall.holes.push(hole);
    const front = new ShapeGeometry(wall), { position, uv } = front.attributes;
    for (let k = 0; k < position.count; k++) uv.setXY(k, position.getX(k) / (2 * HALF_ROOM) + 0.5, position.getY(k) / HEIGHT);
    this.wall = new Mesh(front, new MeshBasicMaterial({ map: (this.plaster = plaster()), fog: false }));
    // Everything behind the opening is drawn only where this pane is seen.
    this.pane = new Mesh(
      new PlaneGeometry(WIDTH, HIGH - LOW),
      new MeshBasicMaterial({
        colorWrite: false, depthWrite: false, stencilWrite: true, stencilRef: 1, stencilZPass: ReplaceStencilOp,
      }),
    );
    this.pane.position.y = (LOW + HIGH) / 2;
    this.pane.renderOrder = -2;
    const glass = new Mesh(
      new PlaneGeometry(WIDTH, HIGH - LOW),
      new MeshBasicMaterial({ map: sheen(), transparent: true, opacity: 0.35, depthWrite: false, fog: false }),
    );
    glass.position.y = this.pane.position.y;
    glass.renderOrder = 5;
    mirror.add(this.wall, this.pane, glass);
    // Light comes along the wall, so that the frame needs some light of its own.
    const wood = new MeshStandardMaterial({ color: 0x9a6f45, roughness: 0.4, emissive: 0x9a6f45, emissiveIntensity: 0.22 });
    const lip = new MeshBasicMaterial({ color: 0xe2c38f, fog: false });
    const beam = (w, h, x, y, depth, material) => {
      const made = new Mesh(new BoxGeometry(w, h, depth), material);
      made.position.set(x, y, depth / 2 - 0.01);
      mirror.add(made);
    };
    const middle = (LOW + HIGH) / 2;
    for (const [t, depth, material] of [[0.075, 0.06, wood], [0.014, 0.068, lip]]) {
      for (const side of [-1, 1]) {
        beam(t, HIGH - LOW + 2 * t, side * (half + t / 2), middle, depth, material);
        beam(WIDTH, t, 0, middle + side * (middle - LOW + t / 2), depth, material);
      }
    }
    this.reflection = new Matrix4();
    this.scene.add(mirror);
  }

  /** The other walls and the ceiling, and the same again behind the mirror: the room is symmetric to it. */
  _walls() {
    this.walls = new Group();
    const plain = new MeshBasicMaterial({ map: this.plaster, fog: false, side: DoubleSide });
    const above = new MeshBasicMaterial({ map: ceiling(), fog: false, side: DoubleSide });
    const edge = new MeshBasicMaterial({ color: 0xf4f1ea, fog: false });
    const plane = (w, h, material, x, y, z, turn) => {
      const made = new Mesh(new PlaneGeometry(w, h), material);
      made.position.set(x, y, z);
      made.rotation.set(turn === null ? Math.PI / 2 : 0, turn ?? 0, 0);
      this.walls.add(made);
    };
    const board = (w, d, x, z) => {
      const made = new Mesh(new BoxGeometry(w, 0.09, d), edge);
      made.position.set(x, 0.045, z);
      this.walls.add(made);
    };
    for (const side of [-1, 1]) {
      plane(2 * HALF_ROOM, HEIGHT, plain, 0, HEIGHT / 2, side * DEPTH, 0);
      board(2 * HALF_ROOM, 0.03, 0, side * (DEPTH - 0.015));
      plane(2 * HALF_ROOM, DEPTH, above, 0, HEIGHT, (side * DEPTH) / 2, null);
      for (const end of [-1, 1]) {
        plane(DEPTH, HEIGHT, plain, end * HALF_ROOM, HEIGHT / 2, (side * DEPTH) / 2, Math.PI / 2);
        board(0.03, DEPTH, end * (HALF_ROOM - 0.015), (side * DEPTH) / 2);
        if (side > 0) {
          const long = HALF_ROOM - WIDTH / 2 - 0.075;
          board(long, 0.03, end * (HALF_ROOM - long / 2), 0.015);
        }
      }
    }
    this.mirror.add(this.walls);
  }

  /** Materials of the mirrored copy are drawn only inside the pane. */
  behindPane(material) {
    const made = material.clone();
    Object.assign(made, { stencilWrite: true, stencilRef: 1, stencilFunc: EqualStencilFunc });
    return made;
  }

  /** Put the mirror in front of a user at `feet` who looks along `yaw` (0: -z), and the light beside both. */
  place(feet, yaw) {
    const ahead = new Vector3(-Math.sin(yaw), 0, -Math.cos(yaw));
    const right = new Vector3(Math.cos(yaw), 0, -Math.sin(yaw));
    this.mirror.position.copy(feet).addScaledVector(ahead, MIRROR_AWAY);
    this.mirror.rotation.y = yaw;
    const n = ahead, d = n.dot(this.mirror.position);
    this.reflection.set(
      1 - 2 * n.x * n.x, -2 * n.x * n.y, -2 * n.x * n.z, 2 * d * n.x,
      -2 * n.y * n.x, 1 - 2 * n.y * n.y, -2 * n.y * n.z, 2 * d * n.y,
      -2 * n.z * n.x, -2 * n.z * n.y, 1 - 2 * n.z * n.z, 2 * d * n.z,
      0, 0, 0, 1,
    );
    this.surroundings.position.set(this.mirror.position.x, 0, this.mirror.position.z);
    // Parallel to the mirror, so that shadow and mirrored shadow agree.
    this.light(this.mirror.position, right);
    this.yaw = yaw;
  }

  light(target, right) {
    this.sun.target.position.copy(target).setY(0);
    this.sun.position.copy(this.sun.target.position).addScaledVector(right, 2.2).add(new Vector3(0, 4.6, 0));
    this.fill.target.position.copy(this.sun.target.position);
    this.fill.position.copy(this.sun.target.position).addScaledVector(right, -3).add(new Vector3(0, 2, 0));
  }

  /** mode: "flat", "vr" or "ar". */
  show(mode) {
    const ar = mode === "ar";
    this.mirror.visible = mode !== "flat";
    this.wall.visible = !ar;
    // In passthrough the room is seen only in the mirror.
    for (const part of [this.surroundings, this.walls]) {
      part.traverse(({ material }) => {
        if (!material) return;
        Object.assign(material, {
          stencilWrite: ar, stencilRef: 1, stencilFunc: ar ? EqualStencilFunc : AlwaysStencilFunc,
        });
      });
    }
  }
}

function sky() {
  const material = new ShaderMaterial({
    side: BackSide, depthWrite: false, fog: false,
    uniforms: { horizon: { value: HORIZON }, zenith: { value: ZENITH }, nadir: { value: NADIR } },
    vertexShader: "varying vec3 at; void main() { at = position; gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0); }",
    fragmentShader: `varying vec3 at; uniform vec3 horizon, zenith, nadir;
      void main() { float h = normalize(at).y;
        vec3 c = h > 0.0 ? mix(horizon, zenith, pow(h, 0.6)) : mix(horizon, nadir, clamp(-6.0 * h - 1.2, 0.0, 1.0));
        gl_FragColor = vec4(c, 1.0);
        #include <tonemapping_fragment>
        #include <colorspace_fragment>
      }`,
  });
  const dome = new Mesh(new SphereGeometry(40, 32, 16), material);
  dome.renderOrder = -1;
  return dome;
}
