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

/** What the actions that replace publish. */
const REPLACED = {
  replacements: [
    'list<dyn>',
    'The replacements that found something: replacement_index, from 0, and matched_content, the first match.'
  ]
} as const

/** Codes of the actions that replace text in bodies. */
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

/** Say something of the bytes that were there before (RFC 9530 2; RFC 9110 8.6, 14.3). */
const OF_OLD_BYTES = ['content-md5', 'digest', 'content-digest', 'repr-digest', 'accept-ranges']

/** What answers when the content cannot be read or written. */
interface ContentRefusals {
  readonly tooLarge: Verdict
  /** A content coding that cannot be undone. */
  readonly coding: Verdict
  /** Bytes that are not what their coding says. */
  readonly malformed: Verdict
}

/** What came of the replacements: nothing to do, or content and header fields for the message. */
type ReplacedContent =
  | { readonly kind: 'unchanged'; readonly found: readonly Found[] }
  | { readonly kind: 'changed'; readonly found: readonly Found[]; readonly bytes: Uint8Array }

/** Replaces in the content of one message whose body has been buffered. */
type ContentReplacing = (flow: Flow, body: Uint8Array, headers: HeaderFields) => Promise<ReplacedContent | Verdict>

/**
 * Compiles the replacements of a body. Content codings are undone first, within the limit of a buffered body. When
 * nothing matches, bytes and header fields stay as they came; else the content goes on without a coding, and the fields
 * that spoke of the old bytes are removed.
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

/** The content without its codings, counted in the budget when it is not `body` itself. */
async function contentOf(
  flow: Flow,
  body: Uint8Array,
  headers: HeaderFields,
  bodies: BodyBuffers,
  refusals: ContentRefusals
): Promise<Uint8Array | Verdict> {
  const codings = codingsOf(headers)
  if (codings.length === 0) return body
  // How much comes out is known afterwards.
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
  // The engine frames by the bytes; this is for policies that look.
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
 * Replaces text in the body of the request, whatever its media type: a client chooses that, and must not choose by it
 * what the upstream gets to see. The whole body is buffered first.
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
/** What is looked for may begin in one part and end in another, so no part is known to be free of it. */
const PARTIAL = refuse(bodyReplaceErrors.RESPONSE_PARTIAL)

/**
 * Replaces text in the body of the response. The whole body is buffered first. Media that hold no text (images, archives,
 * …) and event streams, which have an action of their own, pass untouched.
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

/** An answer to HEAD cannot say how long the body would be after replacements (RFC 9110 9.3.2 allows to leave it out). */
function withoutLength(response: FlowResponse): void {
  for (const name of ['content-length', 'content-md5', 'digest', 'content-digest', 'repr-digest']) {
    response.headers.delete(name)
  }
  // The engine frames by the body, whose length it knows from the upstream.
  response.transforms.push(() => new PassThrough())
}

type Field = keyof EventStreamMessage

/** Replaces text in each message of an event stream, which goes on streaming. A message is handled for itself. */
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
    /** From the entry at `index` on. Short messages are done at once, in the order in which they came. */
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

/** What the schema of this action adds to an entry. */
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

/** What came out of a replacement, where it can stand in a message: a line end in `retry` would begin another field. */
function written(field: Field, text: string): string {
  if (field === 'retry' && /[\r\n]/.test(text)) {
    throw new EvaluationError('failed', 'retry would hold a line end')
  }
  return text
}

/** Replaces text in bodies. */
export const bodyReplace = defineFeature({
  name: 'body-replace',
  summary: 'Finds and replaces text in bodies and event streams.',
  actions: [requestBodyFindReplace, responseBodyFindReplace, sseFindReplace],
  errors: [bodyReplaceErrors]
})
