import type { OptionGroup } from '../../options/group.js'
import * as option from '../../options/values.js'
import { optional } from '../../schema/values.js'

/** Options of agents. */
export const agentOptions = {
  after: 'regions',
  options: {
    agents: optional(
      option.address({
        description:
          'Address to which tunnel agents connect (TLS); may be that of a TLS listener. Without it, agents cannot connect.'
      })
    ),
    agents_certificate: optional(
      option.file({
        description:
          'PEM file of the certificate presented to agents, leaf first; reloaded when it changes; default: one from a private CA that Sluice creates.'
      })
    ),
    agents_key: optional(option.file({ description: 'PEM file of the private key for `agents_certificate`.' })),
    agents_tcp_ports: optional(
      option.ports({
        description: 'Ports that agents may open for TCP endpoints, such as 20000-20999; default: any free port.'
      })
    )
  }
} satisfies OptionGroup
