/** What is measured. A peer that cannot do a scenario leaves it out. */
export interface Scenario {
  readonly name: string
  readonly title: string
  readonly path: string
  readonly connections: number
  /** The answers are refusals on purpose. */
  readonly refused: boolean
  /** Policy of Sluice, as YAML. */
  readonly policy?: string | undefined
  readonly accessLog: boolean
  /** Does the size of a body matter more than the number of requests? */
  readonly bulk: boolean
  /** Protocol of the client over TLS. @default clear text */
  readonly secure?: 'http/1.1' | 'h2'
  /** Size of the request's body (bytes). @default no body */
  readonly upload?: number
  /** Size of the answer's body (bytes). */
  readonly answer: number
  /** Folder with the rules of the web application firewall. @default none */
  readonly rules?: string
  /** What clients send. @default a GET without fields of its own */
  readonly request?: ClientRequest
}

/** A request that the load generator repeats. */
export interface ClientRequest {
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

const FIVE_RULES = `
on_http_request:
  - name: blocked methods
    expressions: ["req.method == 'DELETE' || req.method == 'PATCH'"]
    actions: [{ type: deny }]
  - name: admin from inside only
    expressions: ["req.url.path.startsWith('/admin/')", "!inCidrRange(conn.client_ip, '127.0.0.0/8')"]
    actions: [{ type: deny }]
  - name: bad agents
    expressions: ["'user-agent' in req.headers && req.headers['user-agent'][0].matches('(?i)(nikto|sqlmap)')"]
    actions: [{ type: deny }]
  - name: large bodies
    expressions: ["req.content_length > 1000000"]
    actions: [{ type: deny, config: { status_code: 413 } }]
  - name: debug switch
    expressions: ["getQueryParam('debug') == ['1']"]
    actions: [{ type: deny }]
  - name: limit
    actions:
      - type: rate-limit
        config: { name: all, algorithm: sliding_window, capacity: 2000000000, rate: 60s, bucket_key: [conn.client_ip] }
`
const FLOOD = `
on_http_request:
  - name: limit
    actions:
      - type: rate-limit
        config: { name: one, algorithm: sliding_window, capacity: 1, rate: 24h, bucket_key: [conn.client_ip] }
`

/** Sizes of bodies, and paths of the upstream for them. */
const SIZES = [
  { text: '1 MB', path: '/1mb', bytes: 1_048_576 },
  { text: '64 KB', path: '/64k', bytes: 65_536 }
]

const plain = { path: '/', connections: 64, refused: false, accessLog: false, bulk: false, answer: 102 }

export const scenarios: readonly Scenario[] = [
  { ...plain, name: 'pass', title: 'pass-through, 102 bytes' },
  { ...plain, name: 'log', title: 'pass-through with the access log on', accessLog: true },
  { ...plain, name: 'policy', title: 'five CEL rules and one limit', policy: FIVE_RULES },
  { ...plain, name: 'flood', title: 'a client over its limit: 429', policy: FLOOD, refused: true },
  ...SIZES.flatMap(({ text, path, bytes }): Scenario[] => {
    const down = { ...plain, path, connections: 16, bulk: true, answer: bytes }
    return [
      { ...down, name: 'download', title: `downloads of ${text}` },
      { ...down, name: 'upload', title: `uploads of ${text}`, path: '/', upload: bytes, answer: 102 },
      { ...down, name: 'tls-download', title: `downloads of ${text} over TLS`, secure: 'http/1.1' },
      { ...down, name: 'h2-download', title: `downloads of ${text} over HTTP/2 and TLS`, secure: 'h2' }
    ]
  })
]
