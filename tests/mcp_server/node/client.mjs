// The official TypeScript client against a server: does all that a client can, and prints what it saw as JSON.
//
//     node client.mjs '{"library": "sdk" or "client", "era": "legacy" or "modern",
//                       "command": …, "args": […], "env": {…}    for stdio, or
//                       "url": …, "token": …                     for HTTP,
//                       "outside": [command, …]}'                another program that changes something

import { execFileSync } from 'node:child_process';

const spec = JSON.parse(process.argv[2]);
const PATIENCE = 30_000;

// The two major versions differ in where things are and in how a handler is registered.
async function library() {
    if (spec.library === 'sdk') {
        const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
        const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
        const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
        const types = await import('@modelcontextprotocol/sdk/types.js');
        const schemas = {
            'elicitation/create': types.ElicitRequestSchema,
            'notifications/resources/list_changed': types.ResourceListChangedNotificationSchema
        };
        return { Client, StdioClientTransport, StreamableHTTPClientTransport, key: method => schemas[method] };
    }
    const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
    return { Client, StdioClientTransport, StreamableHTTPClientTransport, key: method => method };
}

// Something that was told, and somebody who may wait for it.
class Told {
    seen = [];
    #waiting = [];

    add(item) {
        this.seen.push(item);
        this.#waiting = this.#waiting.filter(({ wanted, done }) => !(wanted(item) && (done(item), true)));
    }

    next(wanted) {
        return new Promise((done, fail) => {
            this.#waiting.push({ wanted, done });
            setTimeout(() => fail(new Error(`not told: ${wanted}`)), PATIENCE).unref();
        });
    }
}

const { Client, StdioClientTransport, StreamableHTTPClientTransport, key } = await library();
const modern = spec.era === 'modern';
const client = new Client(
    { name: 'test', version: '1' },
    {
        capabilities: { elicitation: { form: {} } },
        ...(modern ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {})
    }
);

const asked = [];
client.setRequestHandler(key('elicitation/create'), async request => {
    asked.push(request.params.message);
    return { action: 'accept', content: {} };
});
const listed = new Told();
client.setNotificationHandler(key('notifications/resources/list_changed'), () => listed.add(true));

const transport = spec.url
    ? new StreamableHTTPClientTransport(new URL(spec.url), {
          requestInit: { headers: { Authorization: `Bearer ${spec.token}` } }
      })
    : new StdioClientTransport({ command: spec.command, args: spec.args, env: spec.env });
await client.connect(transport);

const out = { server: client.getServerVersion(), capabilities: client.getServerCapabilities() };
out.instructions = client.getInstructions();
out.version = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion ?? null;

// what there is
out.tools = (await client.listTools()).tools;
out.prompts = (await client.listPrompts()).prompts;
out.templates = (await client.listResourceTemplates()).resourceTemplates;
out.resources = (await client.listResources()).resources.map(resource => resource.uri);

// every tool
async function call(name, args, options) {
    const params = { name, arguments: args };
    const result = await (spec.library === 'sdk' ? client.callTool(params, undefined, options) : client.callTool(params, options));
    return { text: result.content[0].text, failed: result.isError ?? false };
}
const memory = name => ({
    name,
    type: 'user',
    description: `When ${name} matters`,
    content: `${name} is what the user wants in every file of every project, whatever the language.`
});
const file = 'user_prefers-tabs.md';
out.calls = {
    memory_write: await call('memory_write', memory('Prefers tabs')),
    memory_read: await call('memory_read', { filename: file }),
    memory_update: await call('memory_update', { filename: file, old_text: 'every file', new_text: 'each file' }),
    memory_insert: await call('memory_insert', { filename: file, line: 1, text: 'Except in Makefiles, of course.' }),
    memory_view: await call('memory_view', {}),
    memory_list: await call('memory_list', {}),
    memory_search: await call('memory_search', { query: 'tabs' }),
    memory_recall: await call('memory_recall', { message: 'Do I prefer tabs or spaces?' }),
    memory_brief: await call('memory_brief', {})
};
out.missing = await call('memory_read', { filename: 'user_nothing.md' });
out.wrong = await call('memory_search', { query: 7 });

// what a client reads and asks for
async function text(uri) {
    return (await client.readResource({ uri })).contents[0].text;
}
out.read = {
    catalog: await text('memory://catalog'),
    context: await text('memory://context'),
    file: await text(`memory://file/${file}`)
};
out.refused = await text('memory://file/..%2F..%2Fetc%2Fpasswd').catch(error => String(error));
const wanted = { recall: { query: 'Does the user prefer tabs in every file?' }, remember: { fact: 'Tea, not coffee' } };
out.said = {};
for (const { name } of out.prompts) {
    const got = await client.getPrompt({ name, arguments: wanted[name] ?? {} });
    out.said[name] = got.messages.map(message => message.content.text).join('\n');
}

// progress
out.progress = [];
await client.getPrompt({ name: 'audit', arguments: {} }, { onprogress: step => out.progress.push(step) });

// changes, by us and by another program
const opened = modern ? await client.listen({ resourcesListChanged: true }) : null;
let change = listed.next(() => true);
await call('memory_write', memory('Likes tea'));
await change;
if (spec.outside) {
    change = listed.next(() => true);
    execFileSync(spec.outside[0], spec.outside.slice(1), { env: { ...process.env, ...spec.env }, stdio: 'ignore' });
    await change;
}
out.changes = listed.seen.length;
if (modern) await opened.close();

// deleting, and what nobody has confirmed
const tea = { filename: 'user_likes-tea.md' };
out.deleted = await call('memory_delete', tea);
out.gone = await call('memory_read', tea);
out.unconfirmed = await call('memory_read', { filename: 'user_guessed.md' });
out.asked = asked;

await client.close();
process.stdout.write(JSON.stringify(out));
