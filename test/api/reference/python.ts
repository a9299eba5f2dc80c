import { request } from 'node:http'
import { gunzipSync, inflateSync } from 'node:zlib'
import { KEY } from '../asking.js'
import type { Body } from './rows.js'
import type { Call, Client, Reply } from './runner.js'

/**
 * Returns JSON as Python's `json.dumps` writes it by default: a blank after commas and colons, and every character outside of ASCII as an
 * escape.
 */
export function pythonJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(', ')}]`
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).filter(([, item]) => item !== undefined)
    return `{${members.map(([key, item]) => `${pythonJson(key)}: ${pythonJson(item)}`).join(', ')}}`
  }
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(value).replace(/[\u007f-\uffff]/g, escaped)
}

/** Calls whose method of the client takes no body at all, although the request has one in other clients. */
const WITHOUT_BODY: readonly string[] = [
  'event_sources_update',
  'tunnel_sessions_restart',
  'tunnel_sessions_stop',
  'tunnel_sessions_update'
]

/**
 * The requests of the reference's Python client, byte for byte as its source (version 0.18) and its HTTP library write them. It is not the
 * client itself: Python's package index is not a source of this project's dependencies, and no test may need Python.
 *
 * - Members that are None are left out; with every other default the body has them.
 * - A request without a body has `Content-Length: 0` and no type.
 * - A list is followed by the `next_page_uri` of its answers, without any other parameter.
 */
export function python(host: string, port: number): Client {
  const send = (method: string, path: string, body?: Body) => {
    const bytes = body === undefined ? undefined : Buffer.from(pythonJson(body))
    const length = method === 'GET' ? [] : ['Content-Length', String(bytes?.length ?? 0)]
    const headers = [
      ...['Host', `${host}:${port}`],
      ...['User-Agent', 'python-requests/2.32.3'],
      ...['Accept-Encoding', 'gzip, deflate'],
      ...['Accept', '*/*'],
      ...['Connection', 'keep-alive'],
      ...['ngrok-version', '2'],
      ...['authorization', `Bearer ${KEY}`],
      ...length,
      ...(bytes === undefined ? [] : ['Content-Type', 'application/json'])
    ]
    return new Promise<Reply>((resolve, reject) => {
      const sent = request({ host, port, path, method, headers, setHost: false, agent: false }, (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('end', () => {
          const text = decode(Buffer.concat(chunks), response.headers['content-encoding'])
          resolve({ status: response.statusCode ?? 0, json: text === '' ? undefined : JSON.parse(text) })
        })
      })
      sent.on('error', reject)
      sent.end(bytes)
    })
  }
  return {
    filters: true,
    zeros: true,
    show: (value) => value,
    call({ family, verb, method, path, body }: Call) {
      const bare = body === undefined || WITHOUT_BODY.includes(`${family}_${verb}`)
      return send(method, path, bare ? undefined : body)
    },
    async list({ path, filter }, key, whole) {
      const items = []
      const query = new URLSearchParams({ limit: '1', ...(filter === undefined ? {} : { filter }) })
      for (let next = whole ? path : `${path}?${query}`; next !== ''; ) {
        const { status, json } = await send('GET', next)
        if (status !== 200) throw new Error(`GET ${next}: ${status} ${JSON.stringify(json)}`)
        items.push(...json[key])
        // The client uses the URL as it is, so it must be absolute and lead here.
        const url = typeof json.next_page_uri === 'string' ? new URL(json.next_page_uri) : undefined
        if (url !== undefined && url.host !== `${host}:${port}`) throw new Error(`the next page is elsewhere: ${url}`)
        next = url === undefined ? '' : `${url.pathname}${url.search}`
      }
      return items
    }
  }
}

function decode(bytes: Buffer, encoding: string | undefined): string {
  if (encoding === 'gzip') return gunzipSync(bytes).toString()
  return (encoding === 'deflate' ? inflateSync(bytes) : bytes).toString()
}
