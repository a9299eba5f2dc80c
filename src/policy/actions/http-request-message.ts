import { EvaluationError } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import type { Scope } from '../action.js'
import { compileHeaders, headerList } from './header-writing.js'
import { mediaTypeOf } from './media-type.js'

const MAX_KEY = 128
const MAX_VALUE = 8192
/** Bytes of a request body. */
const MAX_BODY = 256 * 1024

/** A request that is ready to be made. */
export interface Message {
  readonly method: string
  readonly url: string
  /** Names and values by turns. */
  readonly headers: readonly string[]
  readonly body: Uint8Array | undefined
}

interface MessageConfig {
  readonly url: string
  readonly method?: string
  readonly query_params?: readonly { readonly key: string; readonly value: string }[]
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** Compiles what a request says. Throws `EvaluationError` when a part of it has no value or is too long. */
export function compileMessage(settings: MessageConfig, scope: Scope): (flow: Flow) => Message {
  const { method = 'GET', query_params = [], headers = {}, body } = settings
  const url = scope.template(settings.url, ['url'])
  const parameters = query_params.map(({ key, value }, i) => ({
    key: scope.template(key, ['query_params', i, 'key']),
    value: scope.template(value, ['query_params', i, 'value'])
  }))
  const writing = compileHeaders(headers, ['headers'], scope)
  const content = body === undefined ? undefined : scope.template(body, ['body'])
  const own = ownHeaders(writing.names, body)
  return (flow) => ({
    method,
    url: withParameters(
      url.text(flow),
      parameters.map(({ key, value }) => [limited(key.text(flow), MAX_KEY), limited(value.text(flow), MAX_VALUE)])
    ),
    headers: [...headerList(writing, flow), ...own, 'x-forwarded-for', flow.clientAddress],
    body: content === undefined ? undefined : bodyOf(content.text(flow))
  })
}

/** What a request says besides, where the config does not. */
function ownHeaders(written: readonly string[], body: string | undefined): string[] {
  const own = ['user-agent', 'Sluice', 'accept-encoding', 'identity']
  if (body !== undefined) own.push('content-type', mediaTypeOf(body))
  return own.filter((_, i) => !written.includes(own[i - (i % 2)] as string))
}

/** What is no URL stays as it is, for the client to say so. */
function withParameters(text: string, parameters: readonly (readonly [string, string])[]): string {
  if (parameters.length === 0 || !URL.canParse(text)) return text
  const url = new URL(text)
  for (const [key, value] of parameters) url.searchParams.append(key, value)
  return url.href
}

function limited(text: string, length: number): string {
  if (text.length > length) throw new EvaluationError('failed', `a query parameter is longer than ${length} characters`)
  return text
}

function bodyOf(text: string): Uint8Array {
  const bytes = Buffer.from(text, 'utf8')
  if (bytes.length > MAX_BODY) throw new EvaluationError('failed', `the body is longer than ${MAX_BODY} bytes`)
  return bytes
}
