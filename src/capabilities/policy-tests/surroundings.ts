import type { SecretValues, Unit } from '../../runtime/plan.js'
import type { ReadTests } from './test-file.js'

/** The secrets and IP policies of a file of tests, as units. */
export function surroundings({ secrets, ipPolicies }: ReadTests): { units: [string, Unit][]; secrets: SecretValues } {
  const units: [string, Unit][] = []
  const values = new Map<string, string>()
  for (const [vault, named] of secrets) {
    units.push([`vault:${vault}`, { kind: 'vault', id: vault, name: vault }])
    for (const [name, value] of named) {
      const secret = `${vault}/${name}`
      values.set(secret, value)
      units.push([`secret:${secret}`, { kind: 'secret', vault, name, value: { secret, version: 1 } }])
    }
  }
  for (const [id, { allow, deny }] of ipPolicies) {
    units.push([`ip_policy:${id}`, { kind: 'ip_policy', id }])
    for (const [action, networks] of [
      ['allow', allow],
      ['deny', deny]
    ] as const) {
      for (const cidr of networks)
        units.push([`ip_rule:${id}/${action}/${cidr}`, { kind: 'ip_rule', policy: id, cidr, action }])
    }
  }
  return { units, secrets: values }
}
