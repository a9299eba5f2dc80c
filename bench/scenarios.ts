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
  /** Limit of requests that Sluice has by its policy and that its peers are configured with: `all` lets every request pass. @default none */
  readonly limit?: 'all' | 'one'
  /** Content coding that the client accepts and the proxy applies. @default none */
  readonly coding?: Coding
  /** Text that the proxy replaces in the answer. @default none */
  readonly replaced?: Replacement
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

/** Content codings that are measured. */
export type Coding = 'br' | 'gzip' | 'zstd'

/** Replacement of one text by another one. */
export interface Replacement {
  readonly from: string
  readonly to: string
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
    expressions: ["req.content_length > 100000000"]
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

/** Sizes of bodies, and paths of the upstream for them: bytes that are all the same, and a text. */
const SIZES = [
  { size: '1 MB', path: '/1mb', text: '/t1m', bytes: 1_048_576 },
  { size: '64 KB', path: '/64k', text: '/t64', bytes: 65_536 }
]

/** Text that stands in the upstream's text many times, and its replacement. */
export const LINK: Replacement = { from: 'http://intranet.example.com/', to: 'https://www.example.com/' }

const compressing = (coding: Coding): string => `
on_http_response:
  - actions:
      - { type: compress-response, config: { algorithms: [${coding}] } }
`
const REPLACING = `
on_http_response:
  - actions:
      - type: response-body-find-replace
        config: { replacements: [{ from: "${LINK.from.replaceAll('.', '[.]')}", to: "${LINK.to}" }] }
`
const CODINGS: readonly Coding[] = ['gzip', 'br', 'zstd']

const plain = { path: '/', connections: 64, refused: false, accessLog: false, bulk: false, answer: 102 }
const limited = { policy: FIVE_RULES, limit: 'all' } as const

export const scenarios: readonly Scenario[] = [
  { ...plain, name: 'pass', title: 'pass-through, 102 bytes' },
  { ...plain, name: 'log', title: 'pass-through with the access log on', accessLog: true },
  { ...plain, ...limited, name: 'policy', title: 'five CEL rules and one limit' },
  { ...plain, name: 'flood', title: 'a client over its limit: 429', policy: FLOOD, limit: 'one', refused: true },
  ...SIZES.flatMap(({ size, path, text, bytes }): Scenario[] => {
    const down = { ...plain, path, connections: 16, bulk: true, answer: bytes }
    const up = { ...down, path: '/', upload: bytes, answer: 102 }
    return [
      { ...down, name: 'download', title: `downloads of ${size}` },
      { ...up, name: 'upload', title: `uploads of ${size}` },
      { ...down, name: 'tls-download', title: `downloads of ${size} over TLS`, secure: 'http/1.1' },
      { ...down, name: 'h2-download', title: `downloads of ${size} over HTTP/2 and TLS`, secure: 'h2' },
      { ...down, ...limited, name: 'policy-download', title: `downloads of ${size}, five CEL rules and one limit` },
      { ...up, ...limited, name: 'policy-upload', title: `uploads of ${size}, five CEL rules and one limit` },
      ...CODINGS.map(
        (coding): Scenario => ({
          ...down,
          name: 'compress',
          title: `text of ${size}, compressed with ${coding}`,
          path: text,
          policy: compressing(coding),
          coding
        })
      ),
      {
        ...down,
        name: 'replace',
        title: `text of ${size}, a name replaced`,
        path: text,
        policy: REPLACING,
        replaced: LINK
      }
    ]
  })
]
