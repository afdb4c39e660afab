// The path of a steered character on the floor: curve, key points, and the part that is walked.
import {
  BufferAttribute, BufferGeometry, CircleGeometry, Color, DoubleSide, Group, InstancedMesh, Matrix4, Mesh,
  MeshBasicMaterial, Plane, Raycaster, Vector2, Vector3,
} from "three";
import { XR_FROM_ROS } from "./avatar.js";

const HALF_WIDTH = 0.03, ABOVE_FLOOR = 0.008, MOST_KEYS = 200;
const AHEAD = new Color(0xffd166), WALKED = new Color(0x5d7f5f);
const FLOOR = new Plane(new Vector3(0, 1, 0), 0), FARTHEST_M = 40;

export class PathView {
  constructor(scene) {
    this.group = new Group();
    this.group.matrixAutoUpdate = false;
    this.group.matrix.copy(XR_FROM_ROS);
    const drawn = { side: DoubleSide, depthWrite: false, polygonOffset: true, polygonOffsetFactor: -2 };
    this.ribbon = new Mesh(new BufferGeometry(), new MeshBasicMaterial({ ...drawn, vertexColors: true }));
    this.keys = new InstancedMesh(new CircleGeometry(0.09, 20), new MeshBasicMaterial({ ...drawn, color: AHEAD }), MOST_KEYS);
    this.keys.count = 0;
    for (const mesh of [this.ribbon, this.keys]) {
      mesh.frustumCulled = false;
      mesh.renderOrder = 1;
      this.group.add(mesh);
    }
    scene.add(this.group);
    this.ray = new Raycaster();
  }

  /** `path`: points and keys [x, y] in the world, index of the next point; or undefined. */
  show(path) {
    this.group.visible = Boolean(path);
    if (!path) return;
    const { points, keys, next } = path, n = points.length;
    const at = new Float32Array(6 * n), colors = new Float32Array(6 * n), faces = [];
    for (let k = 0; k < n; k++) {
      const [x, y] = points[k], a = points[Math.max(0, k - 1)], b = points[Math.min(n - 1, k + 1)];
      const size = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1;
      const side = [(-HALF_WIDTH * (b[1] - a[1])) / size, (HALF_WIDTH * (b[0] - a[0])) / size];
      at.set([x + side[0], y + side[1], ABOVE_FLOOR, x - side[0], y - side[1], ABOVE_FLOOR], 6 * k);
      const { r, g, b: blue } = k < next ? WALKED : AHEAD;
      colors.set([r, g, blue, r, g, blue], 6 * k);
      if (k) faces.push(2 * k - 2, 2 * k - 1, 2 * k, 2 * k, 2 * k - 1, 2 * k + 1);
    }
    this.ribbon.geometry.dispose();
    const geometry = (this.ribbon.geometry = new BufferGeometry());
    geometry.setAttribute("position", new BufferAttribute(at, 3));
    geometry.setAttribute("color", new BufferAttribute(colors, 3));
    geometry.setIndex(faces);
    this.keys.count = Math.min(keys.length, MOST_KEYS);
    const m = new Matrix4();
    for (let k = 0; k < this.keys.count; k++) {
      this.keys.setMatrixAt(k, m.makeTranslation(keys[k][0], keys[k][1], ABOVE_FLOOR + 0.001));
    }
    this.keys.instanceMatrix.needsUpdate = true;
  }

  /** Point [x, y] of the floor in the world under a pointer event, or null. */
  pointed(event, camera) {
    const at = new Vector2((2 * event.clientX) / innerWidth - 1, 1 - (2 * event.clientY) / innerHeight);
    this.ray.setFromCamera(at, camera);
    const hit = this.ray.ray.intersectPlane(FLOOR, new Vector3());
    if (!hit || hit.distanceTo(camera.position) > FARTHEST_M) return null;
    return [-hit.z, -hit.x];
  }
}
