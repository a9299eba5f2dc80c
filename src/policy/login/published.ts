import type { Held } from './session-cache.js'

export type LoginResult = 'oauth' | 'oidc'

/** Why there is no session any more. */
export type SessionEnd = 'inactivity' | 'maximum' | 'revoked' | 'none'

/** `actions.service.oauth.*` or `.oidc.*` of somebody who passes. */
export function sessionResults(
  result: LoginResult,
  issuer: string,
  { session }: Held,
  refreshed: boolean
): Readonly<Record<string, unknown>> {
  const { id, profile, accessToken, refreshToken, expiresAt, identityToken } = session
  return {
    'identity.id': `${issuer}#${profile.id}`,
    'identity.email': profile.email,
    'identity.email_verified': profile.email !== '',
    'profile.emails': profile.emails,
    'identity.name': profile.name,
    'identity.provider_user_id': profile.id,
    access_token: accessToken,
    refresh_token: refreshToken,
    ...(expiresAt === 0 ? {} : { expires_at: new Date(expiresAt) }),
    ...(result === 'oauth'
      ? { 'identity.current_provider_session_id': id }
      : { 'identity.current_session_id': id, identity_token: identityToken }),
    ...flags('none', refreshed),
    'error.code': '',
    'error.message': ''
  }
}

/** The same of somebody who does not pass. */
export function refusedResults(end: SessionEnd, code: string, message: string): Readonly<Record<string, unknown>> {
  return { ...flags(end, false), 'error.code': code, 'error.message': message }
}

function flags(end: SessionEnd, refreshed: boolean) {
  return {
    session_timed_out: end === 'inactivity',
    session_max_duration_reached: end === 'maximum',
    userinfo_refreshed: refreshed,
    user_info_refreshed: refreshed
  }
}
