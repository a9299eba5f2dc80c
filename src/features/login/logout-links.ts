import type { FlowRequest } from '../../flow/flow.js'
import { LOGOUT_PATH, loginCookies } from '../../flow/reserved-paths.js'

/** Returns whether a request has the cookies of a session of any login. */
export function hasSession(request: FlowRequest): boolean {
  return [...loginCookies(request.head.headers).keys()].some((name) => name.includes('session.'))
}

/** Returns path and query of the requested logout. */
export function logoutLink({ target: { parameters } }: FlowRequest): string {
  const query = ['login', 'auth_id', 'redirect_path'].flatMap((name) => {
    const [value] = parameters.get(name) ?? []
    return value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`]
  })
  return `${LOGOUT_PATH}${query.length === 0 ? '' : '?'}${query.join('&')}`
}
