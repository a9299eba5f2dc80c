import { Command } from 'commander'
import type { AgentFlags } from './agent-setup.js'
import { load } from './load.js'

const AGENT_EXAMPLES = `
Examples:
  export SLUICE_TOKEN=…
  sluice agent --server localhost:4443 --ca data/agents/ca.pem --label app=web --forward http://127.0.0.1:3000
  sluice agent --server localhost:4443 --ca data/agents/ca.pem --https app.example.com --forward 3000
  sluice agent --server localhost:4443 --ca data/agents/ca.pem --tcp --forward tcp://127.0.0.1:5432
  sluice agent --config agent.yaml

agent.yaml:
  server: localhost:4443
  ca: data/agents/ca.pem
  tunnels:
    web: {labels: {app: web}, forward: "http://127.0.0.1:3000"}
    shop: {https: shop.example.com, policy: shop.yaml, forward: "https://127.0.0.1:8443", verify: false}
    open: {https: open.example.com, endpoint_policy: open.yaml, forward: 3001}
    database: {tcp: true, forward: "tcp://127.0.0.1:5432"}

A policy file is checked as by \`sluice check\` before anything connects. \`policy\` runs here, on what the server has let
through; \`endpoint_policy\` runs at the server. The API's objects (vaults, IP policies, internal endpoints) and logins are
the server's alone.

The token comes from --token or SLUICE_TOKEN; the variable keeps it out of lists of processes. A lost connection is
made again after half a second to 15 s. Exit code 0: stopped; 1: the server refuses the token or a tunnel; 2: the
command line or the file is wrong.`

/** `sluice agent`: offers what listens here to a Sluice elsewhere. */
export function agentCommand(): Command {
  return new Command('agent')
    .description('connect local upstreams to a Sluice elsewhere')
    .option('--server <host:port>', 'where the server listens for agents')
    .option('--token <token>', 'token of a tunnel credential (or SLUICE_TOKEN)')
    .option('--ca <file>', "authorities that are trusted instead of the system's")
    .option('--server-name <name>', "name in the server's certificate, when it is not the host")
    .option('--label <key=value>', 'label that backends select the tunnel by; may be repeated', collect, [])
    .option('--https [name]', 'endpoint of its own, under this name or a made-up one')
    .option('--http [name]', 'the same without TLS')
    .option('--tcp [host:port]', 'TCP endpoint of its own, on this port or any')
    .option('--policy <file>', 'traffic policy that this agent runs before the target is called')
    .option('--endpoint-policy <file>', 'traffic policy that the server runs for the endpoint')
    .option('--forward <target>', 'http(s)://host:port, tcp://host:port, tls://host:port, unix:/path or a port')
    .option('--metadata <text>', 'shown with the session')
    .option(
      '--resolver <own|system>',
      'who looks names up: DNS servers are asked (own), or the system with all it knows'
    )
    .option('--config <file>', 'several tunnels, and any of the above')
    .addHelpText('after', AGENT_EXAMPLES)
    .action(async (flags: AgentFlags) => {
      const { runAgent } = await load('./agent-run.js', () => import('./agent-run.js'))
      process.exitCode = await runAgent(flags, process.env, process.stderr)
    })
}

function collect(value: string, values: readonly string[]): string[] {
  return [...values, value]
}
