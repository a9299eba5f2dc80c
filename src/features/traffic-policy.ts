import type { BodyBuffers } from '../flow/body-buffers.js'
import { codingsOf, decoders, greaterReading } from '../flow/content-coding.js'
import { flowErrors } from '../flow/error-codes.js'
import { EventStreamTransform } from '../flow/event-stream.js'
import type { Flow, Phase } from '../flow/flow.js'
import { refuse, type Verdict } from '../flow/verdict.js'
import type { CompiledPolicy } from '../policy/compile.js'
import { POLICY_MODULE } from '../policy/record-policy.js'
import type { CompiledPhase } from '../policy/run.js'
import { defineField, type Field } from '../schema/field.js'
import { text } from '../schema/fields.js'
import { defineFeature, defineModule, type Step } from './contract.js'

/** Fields about the original bytes; a changed stream supports no ranges either. */
const DROPPED = ['content-encoding', 'content-length', 'content-md5', 'digest', 'content-digest', 'repr-digest']

/** Verdict for a stream with an unsupported content coding. */
const ENCODING = refuse(flowErrors.RESPONSE_ENCODING)

/**
 * Runs the rules of `on_event_stream_message` on each message of a streaming response. Does nothing if the response is not an event stream.
 * A verdict aborts the stream, so that no client takes it for complete.
 *
 * Called once after the response steps of a policy: later modules see the stream without a content coding.
 */
export function watchEventStream(phase: CompiledPhase, flow: Flow, bodies: BodyBuffers): Verdict | undefined {
  const { response } = flow
  if (response?.body === undefined || !isEventStream(response.headers.get('content-type'))) return undefined
  if (response.status === 204 || response.status === 304 || flow.request?.method === 'HEAD') return undefined
  const undo = decoders(codingsOf(response.headers))
  if (undo === undefined) return ENCODING
  for (const name of DROPPED) response.headers.delete(name)
  response.transforms.push(...undo, () => messages(phase, flow, bodies))
  return undefined
}

function messages(phase: CompiledPhase, flow: Flow, bodies: BodyBuffers): EventStreamTransform {
  return new EventStreamTransform({
    maxMessage: bodies.each,
    each(message) {
      flow.message = message
      const verdict = phase.run(flow)
      return verdict instanceof Promise ? verdict.then((late) => late === undefined) : verdict === undefined
    },
    hold(difference) {
      if (difference > 0) return bodies.reserve(flow, difference) === undefined
      bodies.release(flow, -difference)
      return true
    }
  })
}

function isEventStream(contentType: string | undefined): boolean {
  return ((contentType ?? '').split(';')[0] as string).trim().toLowerCase() === 'text/event-stream'
}

const DESCRIPTION = 'A traffic policy document, YAML or JSON.'

/** Runs the traffic policy. The policy is looked up by key at each step, so that its changes do not affect routes. */
const routeModule = defineModule({
  name: POLICY_MODULE,
  description: 'Runs a traffic policy document.',
  on: ['https', 'tcp', 'tls'],
  fields: (on) => ({ value: policyDocument(on === 'https' ? 'http' : 'tcp') }),
  // The plan has replaced the document by the key of its own unit.
  compile({ policy: key }: { readonly policy: string }, { services }) {
    const step =
      (phase: Phase): Step =>
      (flow, units) => {
        const rules = units.policy(key)?.phases[phase]
        return rules ? rules.run(flow) : undefined
      }
    const request = step('on_http_request')
    const response = step('on_http_response')
    return {
      logins: (units) => units.policy(key)?.logins.map(({ gate }) => gate) ?? [],
      request(flow, units) {
        if (flow.reservedPath !== undefined) return answerOwn(flow, units.policy(key))
        const reads = units.policy(key)?.reads
        if (reads !== undefined) flow.reads = greaterReading(flow.reads, reads)
        return request(flow, units)
      },
      response(flow, units) {
        const verdict = response(flow, units)
        const messages = units.policy(key)?.phases.on_event_stream_message
        if (!messages) return verdict
        const watch = () => watchEventStream(messages, flow, services.bodies)
        return verdict instanceof Promise ? verdict.then((late) => late ?? watch()) : (verdict ?? watch())
      },
      connect: step('on_tcp_connect')
    }
  }
})

/** Responds to a request for a login path without any rule: rules for other requests need not apply to it. */
function answerOwn(flow: Flow, policy: CompiledPolicy | undefined): Verdict | undefined | Promise<Verdict> {
  const login = policy?.logins.find(({ gate }) => gate === flow.reservedPath?.by)
  if (login === undefined) return undefined
  flow.decidedBy = login.decidedBy
  login.decided.inc()
  return flow.reservedPath?.answer(flow)
}

const MAX_DOCUMENT = 1024 * 1024

function policyDocument(layer: 'http' | 'tcp'): Field<string> {
  const value = text({ description: DESCRIPTION, bytes: MAX_DOCUMENT, required: true })
  return defineField<string>({
    ...value,
    read(written, at, path, reading) {
      const document = value.read(written, at, path, reading)
      if (document === undefined) return undefined
      const problems = reading.checkPolicy(document, layer) ?? []
      if (problems.length === 0) return document
      for (const problem of problems) reading.report({ ...problem, field: at })
      return undefined
    }
  })
}

export const trafficPolicy = defineFeature({
  name: 'traffic-policy',
  summary: 'Runs the traffic policy of a route, a TCP edge or a TLS edge.',
  modules: [routeModule]
})
