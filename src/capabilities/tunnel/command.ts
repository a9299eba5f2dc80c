import { Command } from 'commander'
import { collect, keepRunning } from '../../cli/flags.js'
import type { AgentFlags } from './command-setup.js'

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
    calls: {https: grpc.example.com, forward: 50051, app_protocol: http2}
    open: {https: open.example.com, endpoint_policy: open.yaml, forward: 3001}
    database: {tcp: true, forward: "tcp://127.0.0.1:5432"}
    own: {tls: own.example.com, forward: "127.0.0.1:8443"}

Policy files are checked, as by \`sluice check\`, before the agent connects. \`policy\` runs in the agent, on requests that the
server forwarded; \`endpoint_policy\` runs on the server. Only the server has vaults, IP policies, internal endpoints and logins.

The token comes from --token or SLUICE_TOKEN; the variable keeps it out of process lists. The agent reconnects after 0.5 to 15
seconds. Exit code 0: stopped; 1: the server refused the token or a tunnel; 2: the command line or the file is wrong.`

/** `sluice agent`: offers what listens here to a Sluice elsewhere. */
export function agentCommand(): Command {
  const command = new Command('agent')
    .description('expose local services through a remote Sluice server (tunnel)')
    .option('--server <host:port>', 'agent address of the server')
    .option('--token <token>', 'token of a tunnel credential (default: SLUICE_TOKEN)')
    .option('--ca <file>', 'CA certificates to trust instead of those of the system (PEM)')
    .option('--server-name <name>', 'name in the certificate of the server, if it differs from the host')
    .option('--proxy <url>', 'HTTP proxy to reach the server, or "off" (default: HTTPS_PROXY and NO_PROXY)')
    .option('--label <key=value>', 'label by which backends select this tunnel; may be repeated', collect, [])
    .option('--https [name]', 'open an HTTPS endpoint with this name, or a generated one')
    .option('--http [name]', 'open an HTTP endpoint without TLS')
    .option('--tcp [host:port]', 'open a TCP endpoint on this port, or any free one')
    .option('--tls [name]', 'open an endpoint whose TLS the target terminates, with this name or a generated one')
    .option('--policy <file>', 'traffic policy that the agent runs before it forwards')
    .option('--endpoint-policy <file>', 'traffic policy that the server runs for the endpoint')
    .option('--forward <target>', 'service: http(s)://host:port, tcp://host:port, tls://host:port, unix:/path, port')
    .option('--app-protocol <http1|http2>', 'protocol of the local service (default: http1); gRPC needs http2')
    .option('--metadata <text>', 'text that the server shows with the session')
    .option(
      '--resolver <own|system>',
      'how host names are resolved: by DNS queries (own, the default) or by the system resolver (system)'
    )
    .option('--config <file>', 'YAML file with tunnels and any of these options')
    .addHelpText('after', AGENT_EXAMPLES)
    .action(async (flags: AgentFlags) => {
      const { runAgent } = await import('./command-run.js')
      process.exitCode = await runAgent(flags, process.env, process.stderr)
    })
  return keepRunning(command)
}
