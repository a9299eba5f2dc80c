import type { Flow } from '../flow/flow.js'
import type { OwnPath } from '../flow/reserved-paths.js'
import type { Verdict } from '../flow/verdict.js'

/** A request for a login path, as seen by the entry that serves it. */
export interface LoginCall {
  readonly own: OwnPath
  /** Default redirect target: the path of the route that requires the login. */
  readonly home: string
  /** Further gates that the request applies to; a logout without a named login ends the sessions of all of them. */
  readonly others: readonly LoginGate[]
}

/** Login behavior of one module or action. */
export interface LoginGate {
  /** Tag of its realm, which may have several gates; see `tagOf`. */
  readonly tag: string
  /** Mark of the gate within the realm; see `markOf`. */
  readonly mark: string
  /** Id from the configuration; '' if not set. */
  readonly authId: string
  /** Id in the paths of its service provider of SAML; undefined for other logins. */
  readonly serviceProvider?: string | undefined
  /** Lets logged-in users pass. Synchronous for a session that needs no renewal. */
  run(flow: Flow): Verdict | undefined | Promise<Verdict | undefined>
  /** Responds to a request for a login path. */
  answer(flow: Flow, call: LoginCall): Verdict | Promise<Verdict>
  /**
   * Ends the sessions named by a logout token; returns why it is not a valid token of the login's provider. Rejects if that cannot be
   * determined.
   */
  revoke(flow: Flow, token: string): Promise<string | undefined>
  /** Ends the session of a request; returns the Set-Cookie values that clear it in the browser. */
  leave(flow: Flow): readonly string[]
}
