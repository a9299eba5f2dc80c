import { commandErrors } from '../app/errors.js'
import { CodedError, codeOf } from '../lib/errors.js'
import { isObject } from '../lib/json.js'
import { printable } from '../lib/printable.js'
import { systemReason } from '../lib/system-errors.js'
import { readLocalKey } from './local-key.js'
import { ExitCode } from './process.js'

const DEADLINE = 30_000

/** Base URL of the management API, and the key. */
export interface ApiAccess {
  /** Base URL without a trailing slash. */
  readonly url: string
  /** Empty for calls without a key. */
  readonly key: string
  /** Variable or file that the key comes from. */
  readonly source: string
}

/** Response of the API. */
export interface ApiAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: Readonly<Record<string, unknown>>
}

/**
 * Returns the access that a command line and the environment name, or the line that says what is wrong with them. Without SLUICE_API_KEY an API on
 * this machine gets the key of the local data folder.
 */
export function apiAccess(api: string, environment: NodeJS.ProcessEnv): ApiAccess | string {
  const keyless = keylessAccess(api)
  if (typeof keyless === 'string') return keyless
  const { url } = keyless
  const { SLUICE_API_KEY: given = '' } = environment
  if (given !== '') return { url, key: given, source: 'SLUICE_API_KEY' }
  const missing = 'set SLUICE_API_KEY to a key of the management API'
  if (!isHere(url)) return missing
  const local = readLocalKey(environment)
  return 'key' in local
    ? { url, key: local.key, source: local.path }
    : `${missing}, or SLUICE_DATA to the data folder of the process (${local.problem})`
}

/** Returns the access to what needs no key, or the line that says what is wrong with the URL. */
export function keylessAccess(api: string): ApiAccess | string {
  if (!URL.canParse(api) || !/^https?:$/.test(new URL(api).protocol)) return `--api: ${api} is no http(s) URL`
  return { url: api.replace(/\/+$/, ''), key: '', source: '' }
}

/** Options for the address of the API. */
export interface AccessFlags {
  readonly api: string
  readonly insecureHttp?: boolean
}

/** Returns the access like `apiAccess`, but refuses to send the key over a network in clear text unless allowed. */
export function openAccess({ api, insecureHttp }: AccessFlags, environment: NodeJS.ProcessEnv): ApiAccess | string {
  const access = apiAccess(api, environment)
  return typeof access !== 'string' && isExposed(access) && insecureHttp !== true
    ? 'the key would cross the network in clear text: use https://, or --insecure-http'
    : access
}

/** Opens the access as `openAccess` does; on failure prints the reason, with a hint at the help of `command`, and returns the exit code. */
export function accessFor(command: string, flags: AccessFlags): ApiAccess | number {
  const access = openAccess(flags, process.env)
  if (typeof access !== 'string') return access
  process.stderr.write(`error: ${access}\n(sluice ${command} --help lists the flags)\n`)
  return ExitCode.usage
}

/** Prints an error of the API with its problems. Returns the exit code. */
export function printApiError(body: Readonly<Record<string, unknown>>): number {
  process.stderr.write(`error: ${printable(String(body.msg))}\n`)
  for (const problem of Array.isArray(body.problems) ? body.problems : [])
    if (isObject(problem)) process.stderr.write(`  ${printable(Object.values(problem).join(' '))}\n`)
  return ExitCode.failure
}

/** Returns true if requests to the API cross a network in clear text. */
export function isExposed({ url }: Pick<ApiAccess, 'url'>): boolean {
  return new URL(url).protocol === 'http:' && !isHere(url)
}

function isHere(url: string): boolean {
  const { hostname } = new URL(url)
  return hostname === 'localhost' || hostname.endsWith('.localhost') || hostname === '[::1]' || /^127\./.test(hostname)
}

/**
 * Calls the API. Its error responses are returned. Fails with a CodedError `API_UNUSABLE` if the response is not from
 * Sluice, or the key is invalid.
 */
export async function askApi(
  access: ApiAccess,
  path: string,
  request: {
    readonly method?: string
    readonly body?: unknown
    readonly headers?: Readonly<Record<string, string>>
    /** Time limit (ms). @default 30,000 */
    readonly deadline?: number
  } = {}
): Promise<ApiAnswer> {
  const answer = await sendTo(access, path, request)
  const body: unknown = await answer.json().catch(() => undefined)
  if (!isObject(body)) throw unusable(access, 'does not respond like a Sluice API')
  return { status: answer.status, headers: answer.headers, body }
}

/** Calls the API like `askApi`, for responses other than JSON. `lasting`: the response has no end. */
export async function sendTo(
  access: ApiAccess,
  path: string,
  {
    method = 'GET',
    body,
    headers = {},
    deadline = DEADLINE,
    lasting = false
  }: Parameters<typeof askApi>[2] & { readonly lasting?: boolean }
): Promise<Response> {
  const keyed = access.key === '' ? {} : { authorization: `Bearer ${access.key}` }
  const json = body === undefined ? {} : { 'content-type': 'application/json' }
  let answer: Response
  try {
    answer = await fetch(`${access.url}${path}`, {
      method,
      headers: { ...keyed, 'service-version': '2', ...json, ...headers },
      redirect: 'error',
      ...(lasting ? {} : { signal: AbortSignal.timeout(deadline) }),
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
  } catch (error) {
    const { name, cause } = error as Error
    const why = codeOf(cause) ?? (cause instanceof Error ? cause.message : name)
    throw unusable(access, `cannot be reached: ${systemReason(why) ?? why}`, error)
  }
  if (answer.status === 401)
    throw unusable(
      access,
      `does not accept the key in ${access.source}; make another with "sluice api-key create" on its data folder`
    )
  return answer
}

/** Returns the error for an unusable API. */
export function unusable({ url }: ApiAccess, why: string, cause?: unknown): CodedError {
  const { origin } = new URL(url)
  return new CodedError(commandErrors.API_UNUSABLE, `${origin} ${why}`, cause === undefined ? {} : { cause })
}
