import Type from 'typebox'
import { type Termination, takeTermination } from '../flow/flow.js'
import { refuse } from '../flow/verdict.js'
import { defineErrors } from '../lib/errors.js'
import { defineField, type Field } from '../schema/field.js'
import { choice, nullable } from '../schema/fields.js'
import type { RuleView } from '../schema/objects.js'
import { LOWEST_TLS_VERSION, minTlsVersion } from '../schema/tls-version.js'
import { defineFeature, defineModule } from './contract.js'

const tlsTerminationErrors = defineErrors({
  TLS_HANDSHAKE_FAILED: {
    status: 400,
    text: 'The TLS handshake of a client with a TLS edge failed.',
    help: 'The log has the reason in a line "handshake failed"; mostly the client shows no certificate, or does not trust that of the name.'
  }
})

/** Value of `terminate_at` for TLS that ends in Sluice. */
const AT_EDGE = 'edge'

const FAILED = refuse(tlsTerminationErrors.TLS_HANDSHAKE_FAILED)

/** Lowest TLS version of an edge; null where TLS does not end at the edge. */
function versionAtEdge(): Field<string> {
  const version = minTlsVersion()
  const description = 'Lowest version of TLS; only with terminate_at: edge, otherwise null.'
  return defineField<string>({
    ...version,
    description,
    initial: '',
    request: Type.Unsafe({ ...version.request, description }),
    response: Type.Unsafe({ ...nullable(Type.String()), description }),
    present: (stored) => (stored === '' ? null : stored)
  })
}

/** Fills in the version where TLS ends at the edge, and rejects it elsewhere, where it would have no effect. */
function readVersion({ body, given, report }: RuleView): void {
  if (body.terminate_at !== AT_EDGE) {
    if (!given.has('min_version')) return
    const message = 'needs terminate_at: edge, because the server behind the edge decides otherwise'
    report('min_version', 'FIELD_INVALID', message)
  } else if (body.min_version === '') body.min_version = LOWEST_TLS_VERSION
}

/** Configuration in the plan, which has the module only where TLS ends at the edge. */
interface PlannedTermination {
  readonly min_version: string
  /** Ids of the authorities of `mutual_tls`. @default no client certificate is requested */
  readonly authorities?: readonly string[]
}

/** Terminates TLS on the connections of a TLS edge, before its policy and backend and after its IP restriction. */
const edgeModule = defineModule({
  name: 'tls_termination',
  description: 'Selects where TLS ends.',
  on: ['tls'],
  fields: {
    terminate_at: choice([AT_EDGE, 'upstream', 'agent'], {
      description:
        'edge: Sluice ends TLS with the certificate of the name and sends the bytes in it to the backend. upstream and agent: all bytes go to ' +
        'the backend unchanged, and the server or agent there ends TLS.',
      default: AT_EDGE
    }),
    min_version: versionAtEdge()
  },
  rules: [{ on: ['terminate_at', 'min_version'], check: readVersion }],
  compile({ min_version: minVersion, authorities }: PlannedTermination) {
    const how: Termination = {
      minVersion: minVersion === '1.3' ? 'TLSv1.3' : 'TLSv1.2',
      maxVersion: 'TLSv1.3',
      ...(authorities === undefined ? {} : { clients: { authorities, must: 'verified' } })
    }
    return {
      async connect(flow) {
        const result = await takeTermination(flow)?.(how)
        return result?.kind === 'secure' ? undefined : FAILED
      }
    }
  }
})

export const tlsTermination = defineFeature({
  name: 'tls-termination',
  summary: 'Ends TLS on the connections of a TLS edge.',
  modules: [edgeModule],
  errors: [tlsTerminationErrors]
})
