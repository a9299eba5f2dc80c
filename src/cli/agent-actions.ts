import { forwardInternal } from '../features/forward-internal.js'
import { withoutIpPolicies } from '../features/guest-actions.js'
import { restrictIps } from '../features/ip-restriction.js'
import { oauth, oidc, openidConnect } from '../features/login/actions.js'
import { actions } from '../features/registry.js'
import { terminateTls } from '../features/terminate-tls.js'
import { type Action, defineUnsupported } from '../policy/action.js'

const LOGIN = 'logins need the keys of the server; put this rule into a policy there'

/** What makes no sense, or is not there, where an agent runs a policy. */
const ELSEWHERE: ReadonlyMap<string, string> = new Map([
  [forwardInternal.type, 'an agent has no internal endpoints'],
  [terminateTls.type, 'what reaches an agent is no connection that TLS could begin on'],
  [oauth.type, LOGIN],
  [oidc.type, LOGIN],
  [openidConnect.type, LOGIN]
])

/** The actions of policies that agents run: those that they cannot run are refused by name, with the reason. */
export const agentActions: readonly Action[] = actions.map((action) => {
  const reason = ELSEWHERE.get(action.type)
  if (reason !== undefined) return defineUnsupported(action.type, reason)
  return action === restrictIps ? withoutIpPolicies('an agent has no IP policies') : action
})
