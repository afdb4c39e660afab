// The WebSocket to mm_ros: reconnects by itself and never queues messages.
import * as wire from "./wire.js";

const RETRY_MS = 300;
const MOST_WAITING = 8192; // bytes that the browser has not sent yet; beyond that frames are dropped, not queued
const TAKEN_OVER = 4001, REFUSED = 1008;

export class Link {
  /** onPose(pose), onStatus(status), onAnswer(answer), onState(text) */
  constructor(handlers) {
    Object.assign(this, { onPose() {}, onStatus() {}, onAnswer() {}, onState() {} }, handlers);
    this.url = new URL("socket", location.href);
    this.url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    this.url.search = this.url.hash = "";
    this.socket = null;
    this.state = "connecting";
    this.hello = () => []; // messages to send after each connection
    this.dropped = 0;
    this.connect();
  }

  get open() { return this.socket?.readyState === WebSocket.OPEN; }

  connect() {
    const socket = (this.socket = new WebSocket(this.url));
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this._set("connected");
      for (const message of this.hello()) this.say(message);
    };
    socket.onmessage = (event) => this._take(event.data);
    socket.onclose = (event) => {
      if (socket !== this.socket) return;
      if (event.code === TAKEN_OVER) return this._set("taken over");
      if (event.code === REFUSED) return this._set(`closed: ${event.reason}`);
      this._set("connecting");
      this.retryAt = performance.now() + RETRY_MS;
      setTimeout(() => this.retry(), RETRY_MS);
    };
  }

  /** Timers may stop in an immersive session, so its frames call this too. */
  retry() {
    if (this.state !== "connecting" || this.socket.readyState !== WebSocket.CLOSED) return;
    if (performance.now() >= this.retryAt - 5) this.connect();
  }

  takeBack() {
    if (!this.open) this.connect();
  }

  _set(state) {
    this.state = state;
    this.onState(state);
  }

  _take(data) {
    if (typeof data === "string") {
      const message = JSON.parse(data);
      if (message.kind === "status") this.onStatus(message);
      else if (message.kind === "answer") this.onAnswer(message);
      else this.onOther?.(message);
      return;
    }
    const kind = new Uint8Array(data, 0, 1)[0];
    if (kind === wire.PING) {
      const id = new DataView(data).getUint32(4, true);
      this.socket.send(wire.pong(id, performance.now()));
    } else if (kind === wire.POSE) {
      this.onPose(wire.readPose(data));
    }
  }

  /** Send a JSON message. */
  say(message) {
    if (this.open) this.socket.send(JSON.stringify(message));
  }

  /** Send bytes now or not at all. */
  send(bytes) {
    if (!this.open) return false;
    if (this.socket.bufferedAmount > MOST_WAITING) {
      this.dropped += 1;
      return false;
    }
    this.socket.send(bytes);
    return true;
  }
}
