// Page that asks for the code; mm_ros answers with the token of the page's address, which this device keeps.
"use strict";
const KEY = "mm_ros token";
const code = document.getElementById("code");
const note = document.getElementById("note");

function go(token) {
  location.replace(`/${token}/`);
}

async function start() {
  const kept = localStorage.getItem(KEY);
  if (!kept || !/^[A-Za-z0-9_-]{20,100}$/.test(kept)) return;
  const answer = await fetch(`/${kept}/`, { cache: "no-store" });
  if (answer.ok) go(kept);
  else localStorage.removeItem(KEY);
}

function send() {
  const socket = new WebSocket(`wss://${location.host}/pair`);
  socket.onopen = () => socket.send(code.value.trim());
  socket.onerror = () => { note.textContent = "The computer does not answer."; };
  socket.onmessage = (event) => {
    const answer = JSON.parse(event.data);
    socket.close();
    if (answer.token) {
      localStorage.setItem(KEY, answer.token);
      go(answer.token);
    } else {
      note.textContent = answer.why;
      code.value = "";
    }
  };
}

document.getElementById("send").addEventListener("click", send);
code.addEventListener("input", () => { if (/^\d{6}$/.test(code.value)) send(); });
start();
