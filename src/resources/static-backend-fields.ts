import { parseAuthority } from '../lib/host.js'
import { readAuthorities } from '../lib/x509.js'
import type { CertificatePin, RetryCondition, StatusRange } from '../runtime/plan.js'
import { choice, flag, integer, number, text, texts } from '../schema/fields.js'
import type { RuleView } from '../schema/objects.js'
import { ref } from '../schema/references.js'
import { tlsCertificate } from './certificates.js'

const HOUR = 3600
const seconds = (description: string, bounds: { min: number; max: number; default: number }) =>
  number({ description: `${description} Seconds.`, ...bounds, unit: 'seconds' })

/** Returns a field for statuses and ranges such as `200-399`. */
const statuses = (description: string) =>
  texts({ description, item: 'A status or a range of them.', max: 20, bytes: 7 })

export const TLS = {
  enabled: flag({ description: 'Connect with TLS?', default: false }),
  server_name: text({
    description: 'Name that is sent and must stand in the certificate; empty: the host.',
    bytes: 253
  }),
  ca_pem: text({
    description: 'Certificates of the authorities to trust instead of the known ones, in PEM; empty: the known ones.',
    bytes: 256 * 1024
  }),
  min_version: choice(['1.2', '1.3'], { description: 'Lowest version of TLS.', default: '1.2' }),
  pins: texts({
    description:
      'Certificates that it may show, by their SHA-256: certificate: and 64 hexadecimal digits for all of it, public-key: and them, or base64, for its public key. ' +
      'Without ca_pem a pin takes the place of an authority, and of the name unless server_name is set; none: any that an authority vouches for.',
    item: 'A pin.',
    max: 20,
    bytes: 128
  }),
  verify: choice(['on', 'off'], {
    description:
      'off: any certificate is accepted, so that somebody in between can read and change everything; a log line says so at each start.',
    default: 'on'
  }),
  client_certificate: ref(tlsCertificate, {
    description: 'Certificate that is shown to it when it asks for one; null: none.'
  })
}

export const HEALTH = {
  type: choice(['http', 'tcp', 'grpc'], {
    description:
      'http: a GET must be answered with one of the statuses; tcp: a connection is enough; grpc: grpc.health.v1.Health must answer SERVING.',
    default: 'http'
  }),
  service: text({
    description: 'Service of gRPC that is asked for; empty: the server as a whole.',
    bytes: 255,
    examples: ['shop.v1.Orders']
  }),
  path: text({
    description: 'Path of the GET, with a query if need be; empty: /.',
    bytes: 2048,
    examples: ['/healthz']
  }),
  host: text({ description: 'Host of the GET; empty: the address.', bytes: 255 }),
  interval: seconds('From one check to the next.', { min: 0.1, max: HOUR, default: 10 }),
  timeout: seconds('How long a check may take.', { min: 0.05, max: 300, default: 5 }),
  statuses: statuses('Statuses that say that it works, such as 204 or 200-299; none: 200-399.'),
  rise: integer({
    description: 'Checks in a row that must pass until a server that is down is up.',
    min: 1,
    max: 100,
    default: 2
  }),
  fall: integer({
    description: 'Checks in a row that must fail until a server that is up is down.',
    min: 1,
    max: 100,
    default: 3
  })
}

export const PASSIVE_HEALTH = {
  failures: integer({
    description:
      'Failures in a row, time-outs included, until it is taken for down. One that is not reached is down at once.',
    min: 1,
    max: 1000,
    default: 3
  }),
  statuses: statuses(
    'Statuses that are failures, too, such as 503 or 500-599; another server is then asked where that is safe.'
  )
}

export const TIMEOUTS = {
  connect: seconds('Until there is a connection; 0: as the options say.', { min: 0, max: HOUR, default: 0 }),
  response: seconds('From the request to the head of the answer; 0: as the options say.', {
    min: 0,
    max: HOUR,
    default: 0
  }),
  idle: seconds('Without a byte either way; 0: as the options say.', { min: 0, max: 24 * HOUR, default: 0 })
}

export const QUEUE = {
  length: integer({
    description: 'Most requests and connections that wait at one server; further ones get 503 UPSTREAM_BUSY at once.',
    min: 0,
    max: 100_000,
    default: 100
  }),
  timeout: seconds('How long one waits, before it gets 503 UPSTREAM_BUSY.', { min: 0.01, max: HOUR, default: 10 })
}

/** `protocol` of RFC 9110 7.8. */
const PROTOCOL = /^[\w!#$%&'*+.^`|~-]+(?:\/[\w!#$%&'*+.^`|~-]+)?$/

export function upgradesRead({ body, report }: RuleView): void {
  for (const [index, one] of (body.upgrades as readonly string[]).entries()) {
    if (!PROTOCOL.test(one)) report(`upgrades[${index}]`, 'FIELD_INVALID', 'must be a protocol such as tcp or spdy/3.1')
    else if (one.toLowerCase() === 'websocket')
      report(`upgrades[${index}]`, 'FIELD_INVALID', 'is not needed: WebSockets pass everywhere')
  }
}

const RETRY_CONDITIONS: readonly RetryCondition[] = ['connect', 'refused_stream', 'closed', 'timeout']

export const RETRIES = {
  attempts: integer({
    description: 'Tries of one request, the first one and all servers included; 1: nothing is sent again.',
    min: 1,
    max: 10,
    default: 3
  }),
  on: texts({
    description:
      'Why it is sent again: connect (no connection), refused_stream (the server says that it did not process it), closed (a reused connection ended without an answer), timeout (no answer in time), a status or a range of them such as 502-504; none: connect, refused_stream and closed.',
    item: 'A reason, a status, or a range of statuses.',
    max: 20,
    bytes: 14
  }),
  methods: choice(['safe', 'idempotent'], {
    description:
      'Methods of a request that the server may have processed: safe: GET, HEAD and OPTIONS; idempotent: PUT and DELETE, too.',
    default: 'idempotent'
  }),
  per_second: integer({
    description: 'Most retries in a second, all requests to the backend together; 0: no bound.',
    min: 0,
    max: 1_000_000,
    default: 0
  }),
  share: integer({
    description:
      'Retries as a percentage of the requests to the backend, beside ten that it always has in reserve; 0: no bound.',
    min: 0,
    max: 100,
    default: 20
  })
}

export function grpcNeedsHttp2({ body, report }: RuleView): void {
  const health = body.health as { readonly type?: unknown } | null | undefined
  if (health?.type !== 'grpc' || body.http2 === true) return
  report('health', 'CONFLICTING_FIELDS', 'type grpc needs http2, which gRPC is spoken over')
}

/** Rejects fields that this type of health check ignores. */
export function grpcFits({ body, report }: RuleView): void {
  const service = body.service as string
  if (!/^[\x21-\x7e]*$/.test(service)) report('service', 'FIELD_INVALID', 'must hold visible ASCII')
  if (body.type !== 'grpc') {
    if (service !== '') report('service', 'CONFLICTING_FIELDS', 'goes with type grpc alone')
    return
  }
  if (body.path !== '') report('path', 'CONFLICTING_FIELDS', 'does not go with type grpc')
  if ((body.statuses as readonly string[]).length > 0)
    report('statuses', 'CONFLICTING_FIELDS', 'does not go with type grpc')
}

export function statusesRead({ body, report }: RuleView): void {
  for (const [index, one] of (body.statuses as readonly string[]).entries()) {
    if (statusRange(one) !== undefined) continue
    report('statuses', 'FIELD_INVALID', `entry ${index} is no status from 100 to 599 and no range such as 500-599`)
  }
}

export function conditionsRead({ body, report }: RuleView): void {
  for (const [index, one] of (body.on as readonly string[]).entries()) {
    if (isCondition(one) || statusRange(one) !== undefined) continue
    const known = RETRY_CONDITIONS.join(', ')
    report('on', 'FIELD_INVALID', `entry ${index} is none of ${known}, no status and no range such as 502-504`)
  }
}

export function isCondition(written: string): written is RetryCondition {
  return (RETRY_CONDITIONS as readonly string[]).includes(written)
}

/** Parses `503` or `500-599`; undefined if invalid. */
export function statusRange(written: string): StatusRange | undefined {
  const parts = /^([1-5]\d\d)(?:-([1-5]\d\d))?$/.exec(written)
  if (parts === null) return undefined
  const [from, to] = [Number(parts[1]), Number(parts[2] ?? parts[1])]
  return from <= to ? [from, to] : undefined
}

export function pathFits({ body, report }: RuleView): void {
  const path = body.path as string
  if (path === '' || /^\/[\x21\x22\x24-\x7e]*$/.test(path)) return
  report('path', 'FIELD_INVALID', 'must begin with / and hold visible ASCII without #')
}

/** Rejects fields that have no effect without certificate verification. */
export function verifyFits({ body, report }: RuleView): void {
  if (body.verify !== 'off') return
  const unused = body.ca_pem !== '' ? 'ca_pem' : (body.pins as readonly string[]).length > 0 ? 'pins' : undefined
  if (unused !== undefined)
    report('verify', 'CONFLICTING_FIELDS', `off does not go with ${unused}, which nothing would look at`)
}

export function hostFits({ body, report }: RuleView): void {
  const host = body.host as string
  if (host === '' || parseAuthority(host) !== undefined) return
  report('host', 'FIELD_INVALID', 'must be a host, with a port if need be')
}

export function authoritiesRead({ body, report }: RuleView): void {
  const pem = body.ca_pem as string
  if (pem === '') return
  const read = readAuthorities(pem)
  if ('ok' in read) report('ca_pem', 'FIELD_INVALID', read.message, { reason: read.code })
}

export function pinsRead({ body, report }: RuleView): void {
  for (const [index, one] of (body.pins as readonly string[]).entries()) {
    if (pinOf(one) !== undefined) continue
    const message = `entry ${index} is no pin: write certificate: or public-key: and a SHA-256`
    report('pins', 'FIELD_INVALID', message)
  }
}

/** Parses `certificate:` or `public-key:` with 64 hexadecimal digits, optionally with colons, or base64 (RFC 7469 2.1.1). */
export function pinOf(written: string): CertificatePin | undefined {
  const [, of, hash = ''] = /^(certificate|public-key):(.+)$/.exec(written) ?? []
  if (of !== 'certificate' && of !== 'public-key') return undefined
  const digits = hash.replaceAll(':', '').toLowerCase()
  if (/^[0-9a-f]{64}$/.test(digits)) return { of, sha256: digits }
  return /^[0-9A-Za-z+/]{43}=$/.test(hash) ? { of, sha256: Buffer.from(hash, 'base64').toString('hex') } : undefined
}
