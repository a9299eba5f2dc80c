import { type Action, defineUnsupported } from '../policy/action.js'
import { forwardInternal } from '../policy/actions/forward-internal.js'
import { oauth } from '../policy/actions/oauth.js'
import { oidc, openidConnect } from '../policy/actions/openid-connect.js'
import { actions } from '../policy/actions/registry.js'
import { restrictIps } from '../policy/actions/restrict-ips.js'
import { terminateTls } from '../policy/actions/terminate-tls.js'
import { withoutIpPolicies } from '../policy/guest-actions.js'

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
