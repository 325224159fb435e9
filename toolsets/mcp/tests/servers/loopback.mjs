// Keeps a server that would listen on every interface on this machine:
//   node --import ./loopback.mjs SERVER
import net from "node:net";

const { listen } = net.Server.prototype;
net.Server.prototype.listen = function (port, ...rest) {
  return listen.call(this, port, "127.0.0.1", ...rest);
};
