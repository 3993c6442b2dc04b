// Stands between the conformance suite and the server over HTTP: it adds $TOKEN, which the suite knows nothing of, and
// calls what the suite expects of its example server by the names of ours. Its first line is the port.
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

const server = new URL(process.env.URL);
const root = process.env.ROOT; // where the memories are

const header = (name, type = 'user') => `---\nname: ${name}\ndescription: About ${name}\ntype: ${type}\n---\n`;
const keep = (file, text) => fs.existsSync(path.join(root, file)) || fs.writeFileSync(path.join(root, file), text);
const many = () => {
    const now = Date.now();
    for (let i = 0; i < 700; i++) keep(`user_${now}-${i}.md`, `${header(`Fact ${now} ${i}`)}Fact ${i}.\n`);
};
const TOOLS = {
    test_simple_text: { name: 'memory_view', arguments: {} },
    test_logging_tool: { name: 'memory_view', arguments: {} },
    test_error_handling: { name: 'memory_read', arguments: { filename: 'user_nothing.md' } },
    test_tool_with_progress: { name: 'memory_list', arguments: {}, before: many }
};
const PROMPTS = { test_simple_prompt: 'reflect', test_prompt_with_arguments: 'remember' };
const ARGUMENTS = { arg1: 'fact', arg2: 'type' };
const URIS = { 'test://static-text': 'memory://catalog', 'test://template/123/data': 'memory://file/user_123.md' };

function renamed(object, names) {
    return object && Object.fromEntries(Object.entries(object).map(([key, value]) => [names[key] ?? key, value]));
}

// A request in the terms of our server.
function translated(message) {
    const params = message?.params;
    if (message?.method === 'tools/call' && TOOLS[params.name]) {
        const { name, arguments: given, before } = TOOLS[params.name];
        before?.();
        return { ...message, params: { ...params, name, arguments: given } };
    }
    if (message?.method === 'prompts/get' && PROMPTS[params.name])
        return { ...message, params: { ...params, name: PROMPTS[params.name], arguments: renamed(params.arguments, ARGUMENTS) } };
    if (URIS[params?.uri]) return { ...message, params: { ...params, uri: URIS[params.uri] } };
    return message;
}

function translatedBody(body) {
    try {
        const message = JSON.parse(body);
        const ours = translated(message);
        return ours === message ? body : Buffer.from(JSON.stringify(ours));
    } catch {
        return body; // the suite also sends what is no JSON
    }
}

const proxy = http.createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const sent = Buffer.concat(chunks);
    const body = translatedBody(sent);
    const here = `127.0.0.1:${proxy.address().port}`;
    const headers = { ...request.headers, authorization: `Bearer ${process.env.TOKEN}` };
    for (const key of ['host', 'origin']) headers[key] &&= headers[key].replace(here, server.host);
    for (const names of [TOOLS, PROMPTS, URIS]) {
        const found = names[headers['mcp-name']];
        if (found) headers['mcp-name'] = found.name ?? found;
    }
    if (chunks.length) headers['content-length'] = String(body.length);
    const target = { host: server.hostname, port: server.port, path: request.url, method: request.method, headers };
    const asking = http.request(target, answer => {
        const kept = { ...answer.headers };
        delete kept['content-length']; // addresses are put back, and these are longer or shorter
        response.writeHead(answer.statusCode, kept);
        answer.on('data', chunk => {
            let text = chunk.toString('latin1');
            for (const [theirs, ours] of Object.entries(URIS)) text = text.replaceAll(ours, theirs);
            response.write(Buffer.from(text, 'latin1'));
        });
        answer.on('end', () => response.end());
        answer.on('error', () => response.destroy());
    });
    asking.on('error', () => response.destroy());
    response.on('close', () => asking.destroy());
    asking.end(body);
});
proxy.listen(0, '127.0.0.1', () => console.log(proxy.address().port));
