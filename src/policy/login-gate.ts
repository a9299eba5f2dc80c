import type { Flow } from '../flow/flow.js'
import type { OwnPath } from '../flow/reserved-paths.js'
import type { Verdict } from '../flow/verdict.js'

/** A request for a path of logins, as the entry that serves it sees it. */
export interface LoginCall {
  readonly own: OwnPath
  /** Where the browser goes when nothing else is said: the path of the route that asks for the login. */
  readonly home: string
  /** Further gates that the request means; who logs out without naming a login leaves all of them. */
  readonly others: readonly LoginGate[]
}

/** What one module or action does about logins. */
export interface LoginGate {
  /** Names its realm, of which there may be several gates; see `tagOf`. */
  readonly tag: string
  /** Names it among them; see `markOf`. */
  readonly mark: string
  /** As the configuration gives it; '' when it gives none. */
  readonly authId: string
  /** Lets logged-in users pass. Stays synchronous for a session that is good as it is. */
  run(flow: Flow): Verdict | undefined | Promise<Verdict | undefined>
  /** Answers a path of logins. */
  answer(flow: Flow, call: LoginCall): Verdict | Promise<Verdict>
  /** Ends the sessions that a logout token names; a text: why it is no such token of the login's provider. Rejects when that cannot be found out. */
  revoke(flow: Flow, token: string): Promise<string | undefined>
  /** Ends the session of a request; Set-Cookie values that tell the browser. */
  leave(flow: Flow): readonly string[]
}
