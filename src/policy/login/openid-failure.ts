import * as client from 'openid-client'
import { codeOf } from '../../lib/coded-error.js'
import { ProviderFailure, type ProviderTrouble } from './failure.js'

/** Some providers refuse a token without the field that RFC 6750 3 asks for. */
export function isRefusal(error: unknown): boolean {
  const answer = error instanceof Error ? error.cause : undefined
  return answer instanceof Response && (answer.status === 401 || answer.status === 403)
}

/** Errors that mean that the grant or the token is worth nothing (RFC 6749 5.2, RFC 6750 3.1). */
const WORTHLESS = new Set(['invalid_grant', 'invalid_token', 'bad_refresh_token'])
/** RFC 6749 4.1.2.1. */
const BUSY = new Set(['server_error', 'temporarily_unavailable'])

/** What an error of the protocol means. Of its causes only codes go on: their texts may hold what was sent. */
export function failureOf(error: unknown): ProviderFailure {
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if (cause instanceof ProviderFailure) return cause
  const [trouble, message] = described(error)
  return new ProviderFailure(trouble, message, { cause: codeOf(error) })
}

function described(error: unknown): readonly [ProviderTrouble, string] {
  if (error instanceof client.AuthorizationResponseError) {
    return BUSY.has(error.error) ? ['unavailable', 'the provider is busy'] : ['denied', 'the provider denied the login']
  }
  if (error instanceof client.ResponseBodyError) {
    return WORTHLESS.has(error.error)
      ? ['refused', 'the provider does not accept the grant']
      : ['garbage', 'the provider refused the application or its request']
  }
  if (error instanceof client.WWWAuthenticateChallengeError) {
    return error.status === 401 || error.status === 403
      ? ['refused', 'the provider does not accept the access token']
      : ['garbage', `the provider answered with status ${error.status}`]
  }
  const code = codeOf(error)
  if (code === 'OAUTH_KEY_SELECTION_FAILED')
    return ['keys-changed', 'the provider signs with a key that it did not publish']
  if (code === 'OAUTH_TIMEOUT' || code === 'OAUTH_ABORT') return ['unavailable', 'the provider gave no answer in time']
  return ['garbage', 'the answer of the provider cannot be used']
}
