// The state of server, headset and avatar in words, for the flat page and the panel in VR.

const STATES = { tracked: "tracked", extrapolated: "estimated", lost: "lost" };
const ROLES = [["head", "Head"], ["left_hand", "Left hand"], ["right_hand", "Right hand"]];

/** Rows of [name, text, tone]; tone is "good", "fair" or "bad". */
export function rows(status, linkState) {
  if (linkState !== "connected") return [["Server", serverText(linkState), "bad"]];
  if (!status) return [["Server", "connected", "good"]];
  const { session, link, pose, calibration, tracking, control, steering, path } = status;
  const out = [["Server", `mm_ros ${status.version} · avatar '${status.avatar ?? ""}'`, "good"]];
  if (steering) out.push(["Steering", ...steeringText(steering)]);
  if (path) out.push(["Path", `${path.keys.length} key points, ${Math.round(100 * path.progress)} % done`, "good"]);
  if (!control) out.push(["Headset", ...sessionText(session)]);
  if (session?.active && tracking) {
    const whole = ROLES.every(([role], k) => tracking[role] === "tracked" && !(k && status.hands?.[k - 1]));
    const texts = whole ? ["head and both hands"] : ROLES.filter(([role]) => tracking[role]).map(([role, name], k) => {
      const hand = k > 0 && status.hands?.[k - 1] && tracking[role] === "tracked" ? " (bare)" : "";
      return `${name.toLowerCase()} ${STATES[tracking[role]]}${hand}`;
    });
    const bad = ROLES.some(([role]) => tracking[role] === "lost");
    out.push(["Tracking", texts.join(", ") || "no samples yet", bad ? "fair" : "good"]);
  }
  if (session?.active) {
    const lost = session.missed ? `, ${session.missed} lost` : "";
    const good = session.hz > 50 && session.age_ms < 25;
    const age = `${session.age_ms.toFixed(1)} ms old`;
    out.push(["Samples", `${Math.round(session.hz)} Hz${lost}, ${age}, link ${session.trip_ms.toFixed(1)} ms`, good ? "good" : "fair"]);
  }
  if (pose) {
    const text = pose.hz ? `${Math.round(pose.hz)} Hz, ${pose.latency_ms.toFixed(0)} ms after the ${control ? "input" : "sample"}` : "no pose yet";
    out.push(["Avatar", text, pose.hz ? "good" : "fair"]);
  }
  if (calibration) {
    const text = calibration.calibrated
      ? `headset at ${calibration.height.toFixed(2)} m${calibration.arm_span ? `, arm span ${calibration.arm_span.toFixed(2)} m` : ""}`
      : "not measured: stand upright for three seconds";
    out.push(["Calibration", text, calibration.calibrated ? "good" : "fair"]);
  }
  if (link) out.push(["Pages", `${link.pages} open`, "good"]);
  if (status.trouble) out.push(["Note", status.trouble, "fair"]);
  return out;
}

function steeringText({ own, other }) {
  if (own) return ["this page", "good"];
  return other ? ["another page", "fair"] : ["no input yet", "fair"];
}

function serverText(state) {
  if (state === "connecting") return "not reachable; trying again";
  if (state === "taken over") return "another headset took over";
  return state;
}

function sessionText(session) {
  if (!session?.active) return ["no headset is in VR", "fair"];
  const who = session.own ? "this one" : "another one";
  const where = session.mode === "immersive-ar" ? "passthrough" : "VR";
  if (session.visibility === "hidden") return [`${who}, hidden`, "bad"];
  if (session.visibility === "visible-blurred") return [`${who}, a menu is open`, "fair"];
  return [`${who}, in ${where}`, "good"];
}
