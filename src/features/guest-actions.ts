import { isInternal } from '../flow/flow.js'
import { type Action, defineUnsupported, type ReadyAction, type Scope } from '../policy/action.js'
import { forwardInternal } from './forward-internal.js'
import { writtenHost } from './http-request/attempts.js'
import { httpRequest } from './http-request/feature.js'
import { restrictIps } from './ip-restriction.js'
import { actions } from './registry.js'
import { terminateTls } from './terminate-tls.js'

const UNSUPPORTED = 'ACTION_UNSUPPORTED'

type Config = Readonly<Record<string, unknown>>

/** Checks what an action asks for of the account, before it is compiled. */
type Check = (config: Config, scope: Scope) => void

/**
 * The actions of policies that agents send to the server. Such a policy has the rights of its agent alone: what belongs to the
 * account (internal endpoints, IP policies, certificates) is refused by name. Vaults and files are refused by the services that
 * it is compiled with.
 */
export const guestActions: readonly Action[] = actions.map((action) => {
  switch (action) {
    case forwardInternal:
      return defineUnsupported(action.type, 'the policy of an agent does not lead to internal endpoints')
    case httpRequest:
      return checking(httpRequest, noInternalHost)
    case restrictIps:
      return withoutIpPolicies('the policy of an agent does not use IP policies')
    case terminateTls:
      return checking(terminateTls, ownCertificates)
    default:
      return action
  }
})

/** `restrict-ips` where there are no IP policies; `why` says so. */
export function withoutIpPolicies(why: string): ReadyAction {
  return checking(restrictIps, (config, scope) => {
    if (!('ip_policies' in config)) return
    scope.problem(['ip_policies'], UNSUPPORTED, `${why}; write the networks into allow and deny`)
  })
}

function checking(action: ReadyAction, check: Check): ReadyAction {
  return {
    ...action,
    compile(config, scope) {
      check(config as Config, scope)
      return action.compile(config, scope)
    }
  }
}

function noInternalHost({ url }: Config, scope: Scope): void {
  const host = writtenHost(String(url))
  if (isInternal(host)) {
    scope.problem(['url'], UNSUPPORTED, `the policy of an agent does not lead to internal endpoints (${host})`)
  }
}

function ownCertificates(config: Config, scope: Scope): void {
  const { server_certificate, server_private_key, mutual_tls_certificate_authorities: authorities } = config
  if (server_certificate === undefined || server_private_key === undefined) {
    const message =
      'the policy of an agent does not use certificates of the account; write server_certificate and server_private_key'
    scope.problem([], UNSUPPORTED, message)
  }
  for (const [index, authority] of [authorities ?? []].flat().entries()) {
    if (String(authority).includes('-----BEGIN')) continue
    const message = 'the policy of an agent does not use authorities of the account; write the certificate as PEM'
    scope.problem(['mutual_tls_certificate_authorities', index], UNSUPPORTED, message)
  }
}
