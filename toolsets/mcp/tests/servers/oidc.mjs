// An authorization server, oidc-provider, and an MCP server that accepts its tokens:
//   node oidc.mjs FOLDER
// FOLDER has the node_modules with oidc-provider.
// Prints the URL of the MCP server. Each user is logged in at once, and consents. A POST to
// /end-access rejects all access tokens so far; one to /revoke also ends the grants.
import http from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.argv[2]}/package.json`);
const { Provider } = await import(pathToFileURL(require.resolve("oidc-provider")).href);

const listening = async () => {
  const server = http.createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return [server, `http://127.0.0.1:${server.address().port}`];
};
const [issuing, issuer] = await listening();
const [serving, origin] = await listening();
const resource = `${origin}/mcp`;

const provider = new Provider(issuer, {
  cookies: { keys: ["made-up"] },
  scopes: ["openid", "offline_access", "read", "write"],
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (ctx, indicator) => {
        if (indicator !== resource) throw new Error("another resource");
        return { scope: "read write", audience: resource, accessTokenFormat: "opaque" };
      },
    },
  },
});

provider.use(async (ctx, next) => {
  if (!ctx.path.startsWith("/interaction/")) return next();
  const { prompt, params, session } = await provider.interactionDetails(ctx.req, ctx.res);
  let result = { login: { accountId: "ada" } };
  if (prompt.name === "consent") {
    const { accountId } = session;
    const grant = new provider.Grant({ accountId, clientId: params.client_id });
    grant.addOIDCScope("openid offline_access read write");
    grant.addResourceScope(resource, "read write");
    result = { consent: { grantId: await grant.save() } };
  }
  const to = await provider.interactionResult(ctx.req, ctx.res, result, {
    mergeWithLastSubmission: true,
  });
  ctx.redirect(to);
});
issuing.on("request", provider.callback());

// The grants of the tokens so far, by token.
const seen = new Map();
const rejected = new Set();

const answer = (response, status, body, headers = {}) => {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
};

const results = {
  "server/discover": {
    supportedVersions: ["2026-07-28"], capabilities: { tools: {} },
  },
  "tools/list": { tools: [{ name: "hello", inputSchema: { type: "object" } }] },
  "tools/call": { content: [{ type: "text", text: "Hello!" }], isError: false },
};

serving.on("request", async (request, response) => {
  let text = "";
  for await (const chunk of request) text += chunk;
  switch (request.url) {
    case "/.well-known/oauth-protected-resource/mcp":
      return answer(response, 200, {
        resource, authorization_servers: [issuer], scopes_supported: ["read"],
      });
    case "/end-access":
      for (const token of seen.keys()) rejected.add(token);
      return answer(response, 200, {});
    case "/revoke":
      for (const [token, grant] of seen) {
        rejected.add(token);
        await provider.RefreshToken.revokeByGrantId(grant);
        await (await provider.Grant.find(grant))?.destroy();
      }
      return answer(response, 200, {});
    case "/mcp":
      break;
    default:
      return answer(response, 404, {});
  }
  const token = request.headers.authorization?.replace("Bearer ", "");
  const found = token && (await provider.AccessToken.find(token));
  if (!found || found.aud !== resource || rejected.has(token)) {
    const metadata = `${origin}/.well-known/oauth-protected-resource/mcp`;
    return answer(response, 401, {}, {
      "www-authenticate": `Bearer resource_metadata="${metadata}"`,
    });
  }
  seen.set(token, found.grantId);
  const message = JSON.parse(text);
  const result = results[message.method];
  if (!result) return answer(response, 202, {});
  answer(response, 200, {
    jsonrpc: "2.0", id: message.id,
    result: { resultType: "complete", ttlMs: 0, cacheScope: "private", ...result },
  });
});
console.log(resource);
