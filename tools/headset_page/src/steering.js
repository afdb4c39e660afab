// Input that steers a character: keys, gamepad, touch stick. `wire.steer` is its message; mm_ros/web/headset/server.py
// passes it to `on_steering`. Nothing is sent yet.

export class Steering {
  /** view.orbit.worldYaw: direction of the camera. */
  constructor(link, view) {
    this.link = link;
    this.view = view;
  }

  /** Called for each frame of the flat page. */
  frame(_now, _dt) {}
}
