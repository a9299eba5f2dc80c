import Type from 'typebox'
import type { Flow } from '../../flow/flow.js'
import { closeConnection, refuse } from '../../flow/verdict.js'
import { defineAction } from '../action.js'
import { NETWORK, valueLike, wordLike } from '../editor.js'
import { config, enforce, template, text } from '../fields.js'
import { compileIpList } from './ip-list.js'
import { compileIpPolicies, ID } from './ip-policies.js'

const NOTHING_ALLOWED =
  'without an entry in allow nobody passes; allow 0.0.0.0/0 and ::/0 to refuse only what deny holds'

function addresses(description: string) {
  return Type.Optional(
    Type.Array(
      template({ description: 'An IP address or a network such as 192.0.2.0/24.', editor: valueLike(NETWORK) }),
      { description }
    )
  )
}

/**
 * Lets a client pass only when its address is in `allow`, or allowed by one of `ip_policies`, and neither `deny` nor one of
 * the policies denies it. The address is that of the peer, or the one that trusted proxies vouch for; a client's own
 * header never counts.
 */
export const restrictIps = defineAction({
  type: 'restrict-ips',
  phases: ['on_tcp_connect', 'on_http_request', 'on_http_response'],
  config: config({
    enforce: enforce(),
    allow: addresses('Who may pass.'),
    deny: addresses('Who may not, even if allowed.'),
    ip_policies: Type.Optional(
      Type.Array(
        text({
          description: 'Id of an IP policy; one that does not exist allows nobody.',
          editor: wordLike(ID.source)
        }),
        {
          description: 'IP policies to apply beside allow and deny.'
        }
      )
    )
  }),
  configOptional: false,
  terminates: 'sometimes',
  denies: ({ enforce = true }) => enforce,
  results: {
    name: 'restrict_ips',
    fields: { action: 'string', matched_cidr: 'string', 'error.code': 'string', 'error.message': 'string' }
  },
  compile({ enforce = true, allow = [], deny = [], ip_policies = [] }, scope) {
    if (allow.length === 0 && ip_policies.length === 0) scope.warn([], 'NOTHING_ALLOWED', NOTHING_ALLOWED)
    const allowed = compileIpList(allow, ['allow'], scope)
    const denied = compileIpList(deny, ['deny'], scope)
    const policies = compileIpPolicies(ip_policies, ['ip_policies'], scope)
    const verdict = scope.phase === 'on_tcp_connect' ? closeConnection : refuse(403, 'IP_RESTRICTED')
    return (flow) => {
      const { clientAddress } = flow
      const denying = denied(clientAddress, flow) ?? policies('deny', clientAddress, flow)
      const match = denying ?? allowed(clientAddress, flow) ?? policies('allow', clientAddress, flow)
      const passes = denying === undefined && match !== undefined
      publish(flow, passes, match)
      return passes || !enforce ? undefined : verdict
    }
  }
})

function publish(flow: Flow, passes: boolean, match: string | undefined): void {
  flow.publish('restrict_ips', {
    action: passes ? 'allow' : 'deny',
    matched_cidr: match ?? '',
    'error.code': '',
    'error.message': ''
  })
}
