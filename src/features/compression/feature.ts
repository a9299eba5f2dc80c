import { defineErrors } from '../../lib/errors.js'
import { defineAction, type Scope } from '../../policy/action.js'
import { config } from '../../policy/fields.js'
import { policyErrors } from '../../policy/problems.js'
import { decisionCounters } from '../../policy/services.js'
import { choice, list, optional } from '../../schema/values.js'
import { defineFeature, defineModule } from '../contract.js'
import { availableCodings, type Coding, Compressor, savingOf } from './compressor.js'

/** Problem codes of the action compress-response. */
const compressionProblems = defineErrors({
  COOKIES_UNCOMPRESSED: {
    text: 'Responses to requests with cookies are not compressed unless algorithms are named.',
    help: 'Name algorithms if such responses hold no secrets beside what clients choose.'
  }
})

const COMPRESS_UNUSED = 'compress is accepted and never applied: clients that take it take gzip too; name gzip instead'
const WITHOUT_COOKIES =
  'responses to requests with cookies stay uncompressed, because their length could give a secret away (BREACH); name algorithms to compress them too'

/**
 * Compresses responses for clients that accept it.
 *
 * Responses to requests with cookies are excluded unless `algorithms` is set explicitly: if a page repeats data from a third party and
 * contains a secret of the user, its compressed length reveals the secret (BREACH attack).
 */
const compressResponse = defineAction({
  type: 'compress-response',
  summary: 'Compresses the bodies of responses.',
  example: {
    policy: `on_http_response:
  - actions:
      - type: compress-response
        config:
          algorithms: [br, gzip]
`,
    request: 'GET /',
    status: 200
  },
  misnamed: ['compression'],
  phases: ['on_http_response'],
  config: config({
    algorithms: optional(
      list(choice(['gzip', 'br', 'deflate', 'zstd', 'compress'], { description: 'A content coding.' }), {
        description:
          'Codings to offer, the preferred first; br, zstd, gzip and deflate when left out. compress is accepted and never applied. Written out, it also allows them on responses to requests with cookies.',
        min: 1,
        distinct: true
      })
    )
  }),
  configOptional: true,
  terminates: 'never',
  results: {
    name: 'compress',
    fields: {
      already_compressed: ['bool', 'Did the response come with a content coding?'],
      negotiated_algorithm: ['string', 'The content coding that the response got; empty when it got none.']
    }
  },
  compile({ algorithms }, scope) {
    if (algorithms === undefined) scope.warn([], compressionProblems.COOKIES_UNCOMPRESSED, WITHOUT_COOKIES)
    const offered = algorithms === undefined ? availableCodings : offeredOf(algorithms, scope)
    const compressor = new Compressor(offered, { withCookies: algorithms !== undefined })
    return (flow) => {
      const outcome = compressor.compress(flow)
      if (outcome !== undefined)
        flow.publish('compress', {
          already_compressed: outcome.already,
          negotiated_algorithm: outcome.coding ?? ''
        })
      return undefined
    }
  }
})

function offeredOf(algorithms: readonly string[], scope: Scope): readonly Coding[] {
  const offered: Coding[] = []
  for (const [i, algorithm] of algorithms.entries()) {
    const coding = availableCodings.find((known) => known === algorithm)
    if (coding !== undefined) offered.push(coding)
    else if (algorithm === 'compress') scope.warn(['algorithms', i], policyErrors.CONFIG_UNUSED, COMPRESS_UNUSED)
    else scope.unavailable(['algorithms', i], `this Node version has no ${algorithm}`)
  }
  return offered
}

/**
 * Compresses responses for clients that accept it. Responses to requests with cookies are excluded, because their compressed length can
 * reveal a secret (BREACH); the action `compress-response` includes them on request.
 */
const routeModule = defineModule({
  name: 'compression',
  description: 'Compresses responses for clients that take them so.',
  on: ['https'],
  fields: {},
  compile(_config, { owner, services }) {
    const compressor = new Compressor(availableCodings, { withCookies: false })
    const counters = decisionCounters(services.meter, owner, 'compression', ['compressed', 'unchanged'])
    return {
      response: (flow) => {
        const outcome = compressor.compress(flow)
        if (outcome !== undefined) counters[outcome.coding === undefined ? 'unchanged' : 'compressed'].inc()
        return undefined
      }
    }
  }
})

/** Feature: response compression. */
export const compression = defineFeature({
  name: 'compression',
  summary: 'Compresses responses for clients that take compressed ones.',
  actions: [compressResponse],
  modules: [routeModule],
  eventFields: {
    http: {
      'compression.algorithm': {
        type: 'string',
        description: 'Content coding that Sluice applied, or none; null when no compression was configured.',
        read: ({ flow }) => {
          const saving = flow === undefined ? undefined : savingOf(flow)
          return saving === undefined ? null : (saving.coding ?? 'none')
        }
      },
      'compression.bytes_saved': {
        type: 'int',
        description:
          'Bytes of the response body before the coding, less those after it; null when no compression was configured.',
        read: ({ flow }) => (flow === undefined ? null : (savingOf(flow)?.bytesSaved ?? null))
      }
    }
  },
  problems: [compressionProblems]
})
