import { PassThrough } from 'node:stream'
import { EvaluationError } from '../../expression/expression.js'
import type { BodyBuffers } from '../../flow/body-buffers.js'
import { codingsOf, decoded, isTextMedia } from '../../flow/content-coding.js'
import { flowErrors } from '../../flow/error-codes.js'
import type { EventStreamMessage } from '../../flow/event-stream.js'
import type { Flow, FlowResponse } from '../../flow/flow.js'
import type { HeaderFields } from '../../flow/headers.js'
import { refuse, type Verdict } from '../../flow/verdict.js'
import { defineErrors } from '../../lib/errors.js'
import { defineAction, type Scope } from '../../policy/action.js'
import { type BodyText, readText } from '../../policy/body-text.js'
import { config } from '../../policy/fields.js'
import { type NodePath, policyErrors } from '../../policy/problems.js'
import { textLike } from '../../schema/editor.js'
import { optional, template } from '../../schema/values.js'
import { defineFeature } from '../contract.js'
import { compileReplacement, type Found, replacements, replacing } from './replacements.js'
import { type ReplacedText, replaceText, replaceThreads } from './replacing.js'

/** Results of the replacing actions. */
const REPLACED = {
  replacements: [
    'list<dyn>',
    'The replacements that found something: replacement_index, from 0, and matched_content, the first match.'
  ]
} as const

/** Error codes of the body-replacing actions. */
const bodyReplaceErrors = defineErrors({
  BODY_ENCODING: {
    status: 415,
    otherStatuses: [400],
    text: 'The content coding of the request is unknown (415) or broken (400).',
    help: 'Send gzip, br, deflate or no coding.'
  },
  REPLACEMENT_SLOW: {
    status: 503,
    text: 'Finding and replacing text in the body took longer than two seconds.',
    help: 'Simplify the patterns of the action, or keep bodies of this size from it.'
  },
  RESPONSE_PARTIAL: {
    status: 502,
    text: 'The upstream sent a part of a body, in which text cannot be replaced safely.',
    help: 'Remove the field Range from requests of such routes.'
  }
})

const TOO_SLOW = refuse(bodyReplaceErrors.REPLACEMENT_SLOW)

/** Fields about the original bytes (RFC 9530 2; RFC 9110 8.6, 14.3). */
const OF_OLD_BYTES = ['content-md5', 'digest', 'content-digest', 'repr-digest', 'accept-ranges']

/** Verdicts for content that cannot be read or written. */
interface ContentRefusals {
  readonly tooLarge: Verdict
  /** Unsupported content coding. */
  readonly coding: Verdict
  /** Content that does not match its coding. */
  readonly malformed: Verdict
}

/** Result of the replacements: unchanged, or new content and header fields. */
type ReplacedContent =
  | { readonly kind: 'unchanged'; readonly found: readonly Found[] }
  | { readonly kind: 'changed'; readonly found: readonly Found[]; readonly bytes: Uint8Array }

/** Replaces text in a buffered body. */
type ContentReplacing = (flow: Flow, body: Uint8Array, headers: HeaderFields) => Promise<ReplacedContent | Verdict>

/**
 * Compiles the replacements of a body. Content codings are removed first, within the limit of a buffered body. Without a match, bytes and
 * header fields are unchanged; otherwise the content is sent uncoded, and fields about the original bytes are removed.
 */
function compileContentReplacing(
  list: readonly { readonly from: string; readonly to?: string }[],
  scope: Scope,
  refusals: ContentRefusals
): ContentReplacing {
  const entries = list.map((entry, i) => compileReplacement(entry, ['replacements', i], scope))
  const { bodies } = scope.services
  const threads = scope.services.service(replaceThreads)
  return async (flow, body, headers) => {
    const content = await contentOf(flow, body, headers, bodies, refusals)
    if (!(content instanceof Uint8Array)) return content
    const reading = await readText(content, headers.get('content-type'))
    const inserted = (text: string) => reading.insertion(text)
    const outcome = await replaceText(reading.text, entries, flow, { limit: bodies.each, threads, inserted })
    if (content !== body) bodies.release(flow, content.length)
    if (outcome.kind === 'too-large') return refusals.tooLarge
    if (outcome.kind === 'too-slow') return TOO_SLOW
    const { text, found } = outcome
    if (text === reading.text) return { kind: 'unchanged', found }
    const bytes = reading.bytes(text)
    if (bytes.length > bodies.each) return refusals.tooLarge
    bodies.release(flow, body.length)
    const full = bodies.reserve(flow, bytes.length)
    if (full !== undefined) return full
    describe(headers, bytes, reading)
    return { kind: 'changed', found, bytes }
  }
}

/** Returns the content without its codings; counted in the budget unless it is `body` itself. */
async function contentOf(
  flow: Flow,
  body: Uint8Array,
  headers: HeaderFields,
  bodies: BodyBuffers,
  refusals: ContentRefusals
): Promise<Uint8Array | Verdict> {
  const codings = codingsOf(headers)
  if (codings.length === 0) return body
  // The decoded size is known only afterwards.
  const full = bodies.reserve(flow, bodies.each)
  if (full !== undefined) return full
  const content = await decoded(body, codings, bodies.each)
  bodies.release(flow, bodies.each - (content instanceof Uint8Array ? content.length : 0))
  if (content instanceof Uint8Array) return content
  return content === 'too-large' ? refusals.tooLarge : content === 'unknown' ? refusals.coding : refusals.malformed
}

function describe(headers: HeaderFields, bytes: Uint8Array, { contentType }: BodyText): void {
  headers.delete('content-encoding')
  for (const name of OF_OLD_BYTES) headers.delete(name)
  // The engine frames by the actual bytes; this is for policies that read the field.
  if (headers.has('content-length')) headers.set('content-length', String(bytes.length))
  if (contentType !== undefined) headers.set('content-type', contentType)
  const tag = headers.get('etag')
  if (tag?.startsWith('"')) headers.set('etag', `W/${tag}`)
}

const requestErrors = {
  tooLarge: refuse(flowErrors.BODY_TOO_LARGE),
  coding: refuse(bodyReplaceErrors.BODY_ENCODING),
  malformed: refuse({ ...bodyReplaceErrors.BODY_ENCODING, status: 400 })
}

/**
 * Replaces text in the request body, whatever its media type: the client chooses the type and must not control the replacement. The whole
 * body is buffered first.
 */
const requestBodyFindReplace = defineAction({
  type: 'request-body-find-replace',
  summary: 'Replaces text in the bodies of requests.',
  example: {
    policy: `on_http_request:
  - actions:
      - type: request-body-find-replace
        config:
          replacements:
            - from: "password=[^&]*"
              to: password=removed
`,
    request: 'POST /',
    status: 200
  },
  phases: ['on_http_request'],
  config: config({ replacements: replacements() }),
  configOptional: false,
  terminates: 'never',
  replaces: replacing,
  results: { name: 'request_body_find_replace', fields: REPLACED },
  compile({ replacements: list }, scope) {
    const replacing = compileContentReplacing(list, scope, requestErrors)
    const { bodies } = scope.services
    return async (flow) => {
      const { request } = flow
      if (request === undefined) return undefined
      const body = await bodies.request(flow)
      if (!(body instanceof Uint8Array)) return body
      const outcome = await replacing(flow, body, request.headers)
      if (outcome.kind !== 'changed' && outcome.kind !== 'unchanged') return outcome
      if (outcome.kind === 'changed') request.body = outcome.bytes
      flow.publish('request_body_find_replace', { replacements: outcome.found })
      return undefined
    }
  }
})

const responseErrors = {
  tooLarge: refuse(flowErrors.RESPONSE_TOO_LARGE),
  coding: refuse(flowErrors.RESPONSE_ENCODING),
  malformed: refuse(flowErrors.RESPONSE_ENCODING)
}
/** Verdict for partial content: a match may span several parts. */
const PARTIAL = refuse(bodyReplaceErrors.RESPONSE_PARTIAL)

/**
 * Replaces text in the response body. The whole body is buffered first. Binary media (images, archives, …) and event streams, which have
 * their own action, are unchanged.
 */
const responseBodyFindReplace = defineAction({
  type: 'response-body-find-replace',
  summary: 'Replaces text in the bodies of responses.',
  example: {
    policy: `on_http_response:
  - actions:
      - type: response-body-find-replace
        config:
          replacements:
            - from: http://intranet[.]example[.]com
              to: https://www.example.com
`,
    request: 'GET /',
    status: 200
  },
  phases: ['on_http_response'],
  config: config({ replacements: replacements() }),
  configOptional: false,
  terminates: 'never',
  replaces: replacing,
  readsResponse: 'whole',
  results: { name: 'response_body_find_replace', fields: REPLACED },
  compile({ replacements: list }, scope) {
    const replacing = compileContentReplacing(list, scope, responseErrors)
    const { bodies } = scope.services
    return async (flow) => {
      const { response, request } = flow
      if (response === undefined) return undefined
      if (!isTextMedia(response.headers.get('content-type')) || response.status === 304) {
        flow.publish('response_body_find_replace', { replacements: [] })
        return undefined
      }
      if (request?.method === 'HEAD' && !(response.body instanceof Uint8Array)) {
        withoutLength(response)
        flow.publish('response_body_find_replace', { replacements: [] })
        return undefined
      }
      if (response.status === 206) return PARTIAL
      const body = await bodies.response(flow)
      if (!(body instanceof Uint8Array)) return body
      const outcome = await replacing(flow, body, response.headers)
      if (outcome.kind !== 'changed' && outcome.kind !== 'unchanged') return outcome
      if (outcome.kind === 'changed') response.body = outcome.bytes
      flow.publish('response_body_find_replace', { replacements: outcome.found })
      return undefined
    }
  }
})

/** Removes the length from a response to HEAD, because the length after replacements is unknown (RFC 9110 9.3.2 allows to omit it). */
function withoutLength(response: FlowResponse): void {
  for (const name of ['content-length', 'content-md5', 'digest', 'content-digest', 'repr-digest']) {
    response.headers.delete(name)
  }
  // Otherwise the engine would use the length from the upstream.
  response.transforms.push(() => new PassThrough())
}

type Field = keyof EventStreamMessage

/** Replaces text in each message of an event stream without buffering the stream. Each message is handled separately. */
const sseFindReplace = defineAction({
  type: 'sse-find-replace',
  summary: 'Replaces text in the messages of a stream of server-sent events.',
  example: {
    policy: `on_event_stream_message:
  - actions:
      - type: sse-find-replace
        config:
          replacements:
            - field: data
              from: "[0-9]{16}"
              to: "****"
`
  },
  phases: ['on_event_stream_message'],
  config: config({
    replacements: replacements({
      field: optional(
        template({
          description: 'Field of the message: data (when left out) or retry.',
          editor: textLike('\\$\\{', '^(?:data|retry)$')
        })
      )
    })
  }),
  configOptional: false,
  terminates: 'never',
  replaces: replacing,
  results: { name: 'sse_find_replace', fields: REPLACED },
  compile({ replacements: list }, scope) {
    const entries = list.map((entry, i) => {
      const at = ['replacements', i]
      return { ...compileReplacement(entry, at, scope), field: compileField(fieldOf(entry), [...at, 'field'], scope) }
    })
    const { bodies } = scope.services
    const threads = scope.services.service(replaceThreads)
    const taken = (message: EventStreamMessage, name: Field, outcome: ReplacedText): Found | undefined => {
      if (outcome.kind === 'too-slow') throw new EvaluationError('failed', 'the message took too long')
      if (outcome.kind === 'too-large') throw new EvaluationError('failed', 'the message would become too long')
      const [match] = outcome.found
      if (match !== undefined) message[name] = written(name, outcome.text)
      return match
    }
    /** Runs the entries from `index`. Short messages are handled synchronously, in order. */
    const run = (
      flow: Flow,
      message: EventStreamMessage,
      index: number,
      found: readonly Found[]
    ): undefined | Promise<undefined> => {
      const entry = entries[index]
      if (entry === undefined) {
        flow.publish('sse_find_replace', { replacements: found })
        return undefined
      }
      const name = entry.field(flow)
      const text = message[name]
      const next = (match: Found | undefined) =>
        run(flow, message, index + 1, match === undefined ? found : [...found, { ...match, replacement_index: index }])
      if (text === undefined) return next(undefined)
      const outcome = replaceText(text, [entry], flow, { limit: bodies.each, threads })
      return outcome instanceof Promise
        ? outcome.then((replaced) => next(taken(message, name, replaced)))
        : next(taken(message, name, outcome))
    }
    return (flow) => (flow.message === undefined ? undefined : run(flow, flow.message, 0, []))
  }
})

/** Returns the field of an entry; the schema of this action adds it. */
function fieldOf(entry: object): string {
  return 'field' in entry ? String(entry.field) : 'data'
}

function compileField(source: string, at: NodePath, scope: Scope): (flow: Flow) => Field {
  const template = scope.template(source, at)
  if (template.constant === undefined) {
    return (flow) => {
      const text = template.text(flow)
      if (isField(text)) return text
      throw new EvaluationError('failed', 'field is neither data nor retry after interpolation')
    }
  }
  const name = template.constant
  if (!isField(name)) {
    scope.problem(at, policyErrors.CONFIG_INVALID, `"${name}" is not a field that can be replaced: data and retry are`)
  }
  return () => (isField(name) ? name : 'data')
}

function isField(name: string): name is Field {
  return name === 'data' || name === 'retry'
}

/** Returns the result of a replacement; refuses a line end in `retry`, which would start another field. */
function written(field: Field, text: string): string {
  if (field === 'retry' && /[\r\n]/.test(text)) {
    throw new EvaluationError('failed', 'retry would hold a line end')
  }
  return text
}

/** Feature: text replacement in bodies. */
export const bodyReplace = defineFeature({
  name: 'body-replace',
  summary: 'Finds and replaces text in bodies and event streams.',
  actions: [requestBodyFindReplace, responseBodyFindReplace, sseFindReplace],
  errors: [bodyReplaceErrors]
})
