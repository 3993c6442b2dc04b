// The conformance suite knows no tokens: `node --import ./bearer.mjs …` puts $TOKEN on every request to $URL's host.
import http from 'node:http';
import { getGlobalDispatcher, setGlobalDispatcher } from 'undici';

const known = new URL(process.env.URL);
const bearer = `Bearer ${process.env.TOKEN}`;

// what goes by fetch and by undici
function named(headers) {
    if (Array.isArray(headers)) return [...headers, 'authorization', bearer];
    const found = headers?.[Symbol.iterator] ? Object.fromEntries(headers) : headers;
    return { ...found, authorization: bearer };
}
setGlobalDispatcher(
    getGlobalDispatcher().compose(dispatch => (options, handler) => {
        const ours = String(options.origin) === known.origin;
        return dispatch(ours ? { ...options, headers: named(options.headers) } : options, handler);
    })
);

// what goes by node's own module
const request = http.request;
http.request = (...given) => {
    const made = request(...given);
    if (made.host === known.hostname) made.setHeader('authorization', bearer);
    return made;
};
