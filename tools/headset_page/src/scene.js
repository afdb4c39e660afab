// Room, light and mirror, in metres and in WebXR axes (x right, y up, z back).
import {
  BackSide, BoxGeometry, CircleGeometry, Color, DirectionalLight, EqualStencilFunc, Fog, Group, HemisphereLight,
  Matrix4, Mesh, MeshBasicMaterial, MeshStandardMaterial, NeutralToneMapping, PCFShadowMap, PlaneGeometry,
  ReplaceStencilOp, Scene, Shape, ShapeGeometry, ShaderMaterial, SphereGeometry, Vector3, WebGLRenderer,
} from "three";
import { planks, sheen } from "./textures.js";

const WIDTH = 2.0, LOW = 0.06, HIGH = 2.16; // of the mirror
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
    wall.moveTo(-4, 0).lineTo(4, 0).lineTo(4, 3).lineTo(-4, 3).lineTo(-4, 0);
    const hole = new Shape();
    hole.moveTo(-half, LOW).lineTo(half, LOW).lineTo(half, HIGH).lineTo(-half, HIGH).lineTo(-half, LOW);
    wall.holes.push(hole);
    this.wall = new Mesh(new ShapeGeometry(wall), new MeshStandardMaterial({ color: 0xe9e4da, roughness: 0.95, emissive: 0xb3aca0, emissiveIntensity: 0.55 }));
    this.wall.receiveShadow = true;
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
    const wood = new MeshStandardMaterial({ color: 0x3b3027, roughness: 0.5 });
    const beam = (w, h, x, y) => {
      const made = new Mesh(new BoxGeometry(w, h, 0.05), wood);
      made.position.set(x, y, 0.0);
      mirror.add(made);
    };
    const t = 0.055, middle = (LOW + HIGH) / 2;
    beam(t, HIGH - LOW + 2 * t, -half - t / 2, middle);
    beam(t, HIGH - LOW + 2 * t, half + t / 2, middle);
    beam(WIDTH, t, 0, LOW - t / 2);
    beam(WIDTH, t, 0, HIGH + t / 2);
    this.reflection = new Matrix4();
    this.scene.add(mirror);
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
    this.surroundings.visible = !ar;
    this.scene.fog = ar ? null : this.fog;
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
  dome.renderOrder = -3;
  return dome;
}
