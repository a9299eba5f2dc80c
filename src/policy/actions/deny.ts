import Type from 'typebox'
import { closeConnection, refuse } from '../../flow/verdict.js'
import { defineAction } from '../action.js'
import { config, whole } from '../fields.js'

/** Refuses: an answer without a body on HTTP, a closed connection on TCP. */
export const deny = defineAction({
  type: 'deny',
  phases: ['on_tcp_connect', 'on_http_request'],
  config: config({
    status_code: Type.Optional(
      whole({ description: 'Status of the answer, 403 when left out; HTTP only.', min: 400, max: 599 })
    )
  }),
  configOptional: true,
  terminates: 'always',
  denies: true,
  compile({ status_code }, scope) {
    if (scope.phase === 'on_tcp_connect') {
      if (status_code !== undefined) {
        const message = 'a TCP connection is closed without a status; leave it out'
        scope.unavailable(['status_code'], message, 'CONFIG_UNUSED')
      }
      return () => closeConnection
    }
    const verdict = refuse(status_code ?? 403, 'POLICY_DENIED')
    return () => verdict
  }
})
