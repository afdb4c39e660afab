// The avatar's skin: one skeleton, drawn in the room, in first person and in the mirror.
import {
  Bone, BufferAttribute, BufferGeometry, Color, DetachedBindMode, DoubleSide, Group, Matrix4, Mesh, MeshBasicMaterial,
  MeshStandardMaterial, PlaneGeometry, Quaternion, Skeleton, SkinnedMesh, Vector3,
} from "three";
import { blob } from "./textures.js";

// ROS axes (x forward, y left, z up) to those of WebXR (x right, y up, z back).
export const XR_FROM_ROS = new Matrix4().set(0, -1, 0, 0, 0, 0, 1, 0, -1, 0, 0, 0, 0, 0, 0, 1);
const FEET = [17, 21], UPPER_CHEST = 4, NECK = 5, HEAD = 6; // joints
const SUIT = new Color(0x7fa6e8), VISOR = new Color(0x1d2530), LIGHT = new Color(0xe9dfd3), SHOE = new Color(0x39455a);
const PARTS = new Map([[NECK, LIGHT], [HEAD, LIGHT], [10, LIGHT], [14, LIGHT], [17, SHOE], [18, SHOE], [21, SHOE], [22, SHOE]]);
const BESIDE_EYES = 0.45; // share of head and neck above which a vertex would be in the way of the user's own eyes
const ONE = new Vector3(1, 1, 1);
const p = new Vector3(), q = new Quaternion(), m = new Matrix4();

export class Avatar {
  constructor() {
    this.material = new MeshStandardMaterial({ vertexColors: true, roughness: 0.5, metalness: 0.0 });
    this.inside = new MeshStandardMaterial({ vertexColors: true, roughness: 0.5, side: DoubleSide });
    this.shadowOnly = new MeshBasicMaterial({ colorWrite: false, depthWrite: false });
    this.room = frozen(new Group());
    this.mirrored = frozen(new Group());
    this.skeletonId = null;
    this.loading = null;
    this.root = new Vector3(); // in the page's space
    this.head = new Vector3();
    this.feet = [];
    for (const group of [this.room, this.mirrored]) {
      group.visible = false; // until the first pose
      this.feet.push(FEET.map(() => footShadow(group)));
    }
  }

  get ready() { return this.skeletonId !== null; }

  /** Load the skin of another skeleton; poses of unknown skeletons are not drawn. */
  async load(id) {
    if (this.loading === id) return;
    this.loading = id;
    const answer = await fetch(`skin/${id}`);
    if (!answer.ok) {
      this.loading = null; // the skeleton arrives at the server a little later than the first pose
      return;
    }
    this._build(readSkin(await answer.arrayBuffer()));
    this.skeletonId = id;
  }

  _build({ rest, vertices, normals, weights, joints, faces }) {
    for (const mesh of [this.body, this.own, this.shadow, this.copy]) mesh?.removeFromParent();
    this.geometry?.dispose();
    this.ownGeometry?.dispose();
    this.skeleton?.dispose();
    const bones = [], inverses = [];
    for (let j = 0; j < rest.length / 3; j++) {
      const bone = new Bone();
      bone.matrixAutoUpdate = bone.matrixWorldAutoUpdate = false;
      bones.push(bone);
      inverses.push(new Matrix4().makeTranslation(-rest[3 * j], -rest[3 * j + 1], -rest[3 * j + 2]));
    }
    this.skeleton = new Skeleton(bones, inverses);
    const geometry = (this.geometry = new BufferGeometry());
    geometry.setAttribute("position", new BufferAttribute(vertices, 3));
    geometry.setAttribute("normal", new BufferAttribute(normals, 3));
    geometry.setAttribute("skinWeight", new BufferAttribute(weights, 4));
    geometry.setAttribute("skinIndex", new BufferAttribute(joints, 4));
    geometry.setAttribute("color", new BufferAttribute(colours(rest, vertices, weights, joints), 3));
    geometry.setIndex(new BufferAttribute(faces, 1));
    const own = (this.ownGeometry = headless(geometry, rest));
    const mesh = (geo, material, parent) => {
      const made = new SkinnedMesh(geo, material);
      made.bindMode = DetachedBindMode;
      made.bind(this.skeleton, new Matrix4());
      made.frustumCulled = false;
      made.matrixAutoUpdate = false;
      parent.add(made);
      return made;
    };
    this.body = mesh(geometry, this.material, this.room);
    this.own = mesh(own, this.inside, this.room);
    this.shadow = mesh(geometry, this.shadowOnly, this.room);
    this.copy = mesh(geometry, this.material, this.mirrored);
    this.body.castShadow = this.shadow.castShadow = this.copy.castShadow = true;
    this.body.receiveShadow = this.own.receiveShadow = this.copy.receiveShadow = true;
    this.firstPerson(this.isFirstPerson);
  }

  /** In first person head and neck are left out; the whole body still throws its shadow. */
  firstPerson(yes) {
    this.isFirstPerson = yes;
    if (!this.body) return;
    this.body.visible = !yes;
    this.own.visible = this.shadow.visible = yes;
  }

  /** `reflection`: matrix of the mirror, or null to hide the copy. */
  show(pose, inHeadset, reflection) {
    const count = pose.joints.length / 7;
    if (pose.skeleton !== this.skeletonId) this.load(pose.skeleton);
    if (!this.ready || count !== this.skeleton.bones.length) return;
    const joints = pose.joints;
    for (let j = 0; j < count; j++) {
      p.fromArray(joints, 7 * j);
      q.fromArray(joints, 7 * j + 3);
      this.skeleton.bones[j].matrixWorld.compose(p, q, ONE);
    }
    const room = this.room.matrix.copy(XR_FROM_ROS);
    if (inHeadset) {
      p.fromArray(pose.sourceFromMap, 0);
      q.fromArray(pose.sourceFromMap, 3);
      room.multiply(m.compose(p, q, ONE));
    }
    this.room.visible = true;
    this.mirrored.visible = reflection !== null;
    if (reflection) this.mirrored.matrix.multiplyMatrices(reflection, room);
    this.root.fromArray(joints, 0).applyMatrix4(room);
    this.head.fromArray(joints, 7 * HEAD).applyMatrix4(room);
    FEET.forEach((joint, side) => {
      for (const pair of this.feet) {
        const [x, y, height] = joints.subarray(7 * joint, 7 * joint + 3);
        const near = Math.max(0, 1 - Math.max(0, height - 0.08) / 0.3);
        pair[side].position.set(x + 0.03, y, 0.004);
        pair[side].material.opacity = 0.55 * near;
      }
    });
  }
}

/** A suit with shoes, light hands and head, and a visor where the eyes are. */
function colours(rest, vertices, weights, joints) {
  const out = new Float32Array(vertices.length), mixed = new Color();
  const head = [0, 1, 2].map((k) => rest[3 * HEAD + k]);
  for (let v = 0; v < vertices.length / 3; v++) {
    mixed.setRGB(0, 0, 0);
    for (let c = 0; c < 4; c++) {
      const share = weights[4 * v + c], colour = PARTS.get(joints[4 * v + c]) ?? SUIT;
      mixed.r += share * colour.r;
      mixed.g += share * colour.g;
      mixed.b += share * colour.b;
    }
    const [ahead, , up] = head.map((at, k) => vertices[3 * v + k] - at);
    const inside = Math.min(1, Math.max(0, (0.034 - Math.abs(up - 0.092)) / 0.012)) * Math.min(1, Math.max(0, (ahead - 0.022) / 0.02));
    if (joints[4 * v] === HEAD) mixed.lerp(VISOR, inside);
    mixed.toArray(out, 3 * v);
  }
  return out;
}

/** The same skin, in which all vertices of head and neck are one point at the base of the neck: a closed collar. */
function headless(geometry, rest) {
  const out = geometry.clone();
  const { position, normal, skinWeight, skinIndex } = out.attributes;
  for (let k = 0; k < position.count; k++) {
    let share = 0;
    for (let c = 0; c < 4; c++) {
      const joint = skinIndex.getComponent(k, c);
      if (joint === NECK || joint === HEAD) share += skinWeight.getComponent(k, c);
    }
    if (share <= BESIDE_EYES) continue;
    position.setXYZ(k, rest[3 * NECK], rest[3 * NECK + 1], rest[3 * NECK + 2] - 0.02);
    normal.setXYZ(k, 0, 0, 1);
    skinIndex.setXYZW(k, UPPER_CHEST, 0, 0, 0);
    skinWeight.setXYZW(k, 1, 0, 0, 0);
  }
  return out;
}

function footShadow(parent) {
  const material = new MeshBasicMaterial({
    map: blob(), transparent: true, depthWrite: false, color: 0x000000, polygonOffset: true, polygonOffsetFactor: -1,
    side: DoubleSide,
  });
  const mesh = new Mesh(new PlaneGeometry(0.42, 0.3), material);
  mesh.renderOrder = 1;
  parent.add(mesh);
  return mesh;
}

function frozen(group) {
  group.matrixAutoUpdate = false;
  return group;
}

function readSkin(buffer) {
  const [v, f, j] = new Uint32Array(buffer, 0, 3);
  let at = 16;
  const take = (Type, count) => {
    const out = new Type(buffer, at, count);
    at += out.byteLength;
    return out;
  };
  return {
    rest: take(Float32Array, 3 * j),
    vertices: take(Float32Array, 3 * v),
    normals: take(Float32Array, 3 * v),
    weights: take(Float32Array, 4 * v),
    joints: take(Uint8Array, 4 * v),
    faces: take(Uint32Array, 3 * f),
  };
}
