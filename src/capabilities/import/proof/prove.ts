import { compileRegex } from '../../../lib/regex.js'
import type { ImportedConfig, ImportedHost, ImportedRoute, RouteTest, SourcePosition, Statement } from '../model.js'
import { compareAnswers, compareReceived, type Difference } from './compare.js'
import { PROOF_FIELD, type Recorder } from './recorder.js'
import type { ProofRequest, RequestKind } from './requests.js'
import { sendRequest } from './send.js'

/** A request whose answers differ. */
interface ProofDifference {
  readonly request: ProofRequest
  readonly differences: readonly Difference[]
  /** The statement that chose the answer of the old server; undefined: none is known. */
  readonly statement?: Statement | undefined
  /** A statement that is close or not here, or the normal form of paths, explains it. */
  readonly explained: boolean
}

export interface ProofResult {
  readonly requests: number
  /** Numbers by kind of request. */
  readonly matrix: ReadonlyMap<RequestKind, MatrixRow>
  readonly differences: readonly ProofDifference[]
}

interface MatrixRow {
  same: number
  explained: number
  unexplained: number
}

/** The two servers that a proof compares. */
export interface ProofServers {
  readonly old: URL
  readonly now: URL
  /** By name of the upstream; undefined: the upstreams are those of the source. */
  readonly oldRecorders?: readonly Recorder[]
  readonly newRecorders?: readonly Recorder[]
}

/** Requests that are under way at a time. */
const CONCURRENCY = 8
const MAX_SHOWN = 20

/** Sends each request to both servers and compares. */
export async function proveRequests(
  requests: readonly ProofRequest[],
  servers: ProofServers,
  config: ImportedConfig,
  statements: readonly Statement[]
): Promise<ProofResult> {
  const found: (ProofDifference | undefined)[] = new Array(requests.length)
  const ports = ['80', '443', servers.old.port, servers.now.port]
  let next = 0
  const work = async () => {
    while (next < requests.length) {
      const index = next++
      const request = requests[index] as ProofRequest
      const mark = { [PROOF_FIELD]: String(index) }
      const [old, now] = await Promise.all([
        sendRequest(servers.old, request, mark),
        sendRequest(servers.now, request, mark)
      ])
      const received = (recorders: readonly Recorder[] = []) =>
        recorders.map((one) => one.take(String(index))).find((one) => one !== undefined)
      const upstream =
        servers.oldRecorders === undefined
          ? []
          : compareReceived(received(servers.oldRecorders), received(servers.newRecorders))
      const differences = [...compareAnswers(request, old, now, ports), ...upstream]
      if (differences.length > 0) found[index] = explain(request, differences, config, statements)
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, work))
  const matrix = new Map<RequestKind, MatrixRow>()
  for (const [index, { kind }] of requests.entries()) {
    const row = matrix.get(kind) ?? { same: 0, explained: 0, unexplained: 0 }
    const difference = found[index]
    row[difference === undefined ? 'same' : difference.explained ? 'explained' : 'unexplained']++
    matrix.set(kind, row)
  }
  const differences = found.filter((one) => one !== undefined)
  return {
    requests: requests.length,
    matrix,
    differences: differences.sort((a, b) => Number(a.explained) - Number(b.explained))
  }
}

function explain(
  request: ProofRequest,
  differences: readonly Difference[],
  config: ImportedConfig,
  statements: readonly Statement[]
): ProofDifference {
  const host = hostOf(request.host, config)
  const route = host?.routes.find((one) => chooses(one, request))
  const at = route?.at ?? host?.at
  const statement = statements.find((one) => at !== undefined && sameAs(one.at)(at))
  const around = at === undefined ? [] : [at, ...(statement?.within ?? [])]
  const here = statements.filter(
    (one) =>
      one.verdict.kind !== 'exact' &&
      (around.some(sameAs(one.at)) || one.within.some((place) => around.some(sameAs(place))) || one.within.length === 0)
  )
  const isGeneral = isGeneralDifference(request, differences, config)
  const near = (one: Statement) => at !== undefined && (sameAs(one.at)(at) || one.within.some(sameAs(at)))
  const explained =
    isGeneral || differences.every((difference) => here.some((one) => explains(one, difference, near(one))))
  return { request, differences, statement, explained }
}

/** Differences between the servers that follow from no statement. */
const GENERAL_DIFFERENCES = [
  'general differences, which follow from no statement:',
  '  paths have one normal form here: repeated slashes are merged, escapes are decoded or kept in one form, and %2F is refused',
  '  WebSockets are passed on everywhere, and hosts that no site has get 404',
  '  bodies over 1 MiB pass unless client_max_body_size is set',
  '  answers for errors have an empty body; X-Forwarded-*, Forwarded, Via and x-request-id are written for each upstream'
]

function isGeneralDifference(
  { kind }: ProofRequest,
  differences: readonly Difference[],
  { hosts, format, statements }: ImportedConfig
): boolean {
  // The first server of nginx is the one for all other hosts.
  if (kind === 'unknown host' && format !== 'nginx' && !hosts.some(({ names }) => names.includes('*'))) return true
  if (kind === 'slashes' || kind === 'escapes') return true
  const [first] = differences
  if (kind === 'upgrade') {
    return differences.every(
      ({ name, now }) => now === '101' || ['upgrade', 'x-upstream', 'sec-websocket-version'].includes(name)
    )
  }
  const limited = statements.some(({ text }) => text.startsWith('client_max_body_size'))
  return kind === 'large body' && !limited && first?.name === 'status' && first.old === '413'
}

const sameAs = (one: SourcePosition) => (other: SourcePosition) =>
  one.file === other.file && one.line === other.line && one.column === other.column

/** Can what is different follow from a statement that is not exact? `near`: it belongs to the route itself. */
function explains({ text, verdict }: Statement, { aspect, name }: Difference, near: boolean): boolean {
  const directive = /^[^\s;{]+/.exec(text)?.[0] ?? ''
  if (near && (verdict.kind === 'not-here' || ['location', 'server', 'rewrite', 'if'].includes(directive))) return true
  if (directive.startsWith('gzip') || directive.startsWith('brotli'))
    return aspect === 'body' || name === 'vary' || name === 'content-encoding'
  if (aspect === 'upstream')
    return (
      ['proxy_set_header', 'grpc_set_header', 'proxy_pass', 'upstream', 'server'].includes(directive) ||
      directive === 'hash' ||
      directive === 'ip_hash'
    )
  if (aspect === 'field')
    return [
      'add_header',
      'expires',
      'default_type',
      'types',
      'charset',
      'proxy_redirect',
      'autoindex',
      'auth_basic_user_file'
    ].includes(directive)
  if (aspect === 'body') return ['error_page', 'autoindex', 'proxy_pass'].includes(directive)
  return [
    'limit_req',
    'limit_conn',
    'client_max_body_size',
    'return',
    'auth_basic_user_file',
    'error_page',
    'try_files'
  ].includes(directive)
}

/** The host of the model that serves a name: itself, the longest wildcard, or the one for every name. */
function hostOf(name: string, { hosts }: ImportedConfig): ImportedHost | undefined {
  const bare = name.replace(/:\d+$/, '').toLowerCase()
  const patterns = [bare, ...bare.split('.').map((_, index, labels) => `*.${labels.slice(index + 1).join('.')}`), '*']
  for (const pattern of patterns) {
    const host = hosts.find(({ names }) => names.includes(pattern))
    if (host !== undefined) return host
  }
  return hosts[0]
}

/** Does the source choose this route, if none before it is chosen? Expressions of the request are taken as true. */
export function chooses(
  { tests, unless = [] }: ImportedRoute,
  { target, method }: Pick<ProofRequest, 'target' | 'method'>
): boolean {
  const path = normalPath(target)
  return tests.every((test) => isTrue(test, path, method)) && !unless.some((test) => isTrue(test, path, method))
}

function isTrue(test: RouteTest, path: string, method: string): boolean {
  switch (test.kind) {
    case 'path-exact':
      return path === test.path
    case 'path-prefix':
      return test.border === 'text'
        ? path.startsWith(test.path)
        : path === test.path || path.startsWith(`${test.path.replace(/\/$/, '')}/`)
    case 'path-regex': {
      const compiled = compileRegex(`${test.ignoreCase ? '(?i)' : ''}${test.pattern}`)
      return compiled.ok && compiled.regex.test(path)
    }
    case 'method':
      return test.methods.includes(method)
    case 'expression':
      return true
  }
}

function normalPath(target: string): string {
  const path = target.replace(/[?#].*$/s, '').replace(/%([4-7][\da-f])/gi, (text, digits) => {
    const char = String.fromCharCode(Number.parseInt(digits, 16))
    return /[\w.~-]/.test(char) ? char : text
  })
  const parts: string[] = []
  for (const part of path
    .replace(/\/{2,}/g, '/')
    .split('/')
    .slice(1)) {
    if (part === '..') parts.pop()
    else if (part !== '.') parts.push(part)
  }
  return `/${parts.join('/')}`
}

/** Does a statement that is called exact differ? */
export const proofFailed = ({ differences }: ProofResult) => differences.some(({ explained }) => !explained)

/** The matrix, and the first 20 differences with the line of the source. */
export function formatProof(result: ProofResult): string[] {
  const rows = [...result.matrix].map(
    ([kind, { same, explained, unexplained }]) =>
      `${kind.padEnd(14)}${[same, explained, unexplained].map((count) => String(count).padStart(11)).join('')}`
  )
  const shown = result.differences.slice(0, MAX_SHOWN).flatMap(({ request, differences, statement, explained }) => {
    const place =
      statement === undefined ? 'no statement' : `${statement.at.file}:${statement.at.line} ${statement.text}`
    const head = `${explained ? 'explained' : 'DIFFERS  '} ${request.method} ${request.host}${request.target} (${request.kind}): ${place}`
    return [
      head,
      ...differences
        .slice(0, 5)
        .map(({ aspect, name, old, now }) => `  ${aspect === name ? name : `${aspect} ${name}`}: ${old} -> ${now}`)
    ]
  })
  const more = result.differences.length - MAX_SHOWN
  const general = result.differences.some(({ explained }) => explained) ? ['', ...GENERAL_DIFFERENCES] : []
  const last = more > 0 ? [`${more} more ${more === 1 ? 'difference' : 'differences'}`] : []
  return [
    '',
    `proof by ${result.requests} requests`,
    `${''.padEnd(14)}${['same', 'explained', 'differ'].map((word) => word.padStart(11)).join('')}`,
    ...rows,
    ...(shown.length > 0 ? ['', ...shown, ...last] : []),
    ...general
  ]
}

/** Returns the result of a proof as JSON for programs. */
export function proofJson(result: ProofResult): object {
  return {
    requests: result.requests,
    matrix: Object.fromEntries([...result.matrix].map(([kind, row]) => [kind.replaceAll(' ', '_'), row])),
    differences: result.differences.slice(0, MAX_SHOWN).map(({ request, differences, statement, explained }) => ({
      method: request.method,
      host: request.host,
      target: request.target,
      kind: request.kind,
      explained,
      ...(statement === undefined ? {} : { file: statement.at.file, line: statement.at.line }),
      differences
    }))
  }
}
