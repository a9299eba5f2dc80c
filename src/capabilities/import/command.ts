import { Command } from 'commander'
import type { ImportFlags } from './command-flags.js'
import { FORMATS } from './readers.js'

const EXAMPLES = `
Examples:
  sluice import nginx /etc/nginx/nginx.conf -o site.yaml
  sluice import caddy Caddyfile -o site.yaml
  sluice import caddy Caddyfile --adapt -o site.yaml
  sluice import haproxy haproxy.cfg -o site.yaml
  sluice import traefik traefik.yml dynamic.toml compose.yaml -o site.yaml
  sluice import ngrok ngrok.yml -o site.yaml
  sluice import nginx conf.d/shop.conf --report json > report.json
  sluice import nginx nginx.conf -o site.yaml --prove --old http://127.0.0.1:8080
  sluice import nginx nginx.conf --prove --old http://127.0.0.1:8080 --requests access.log

Writes a site file with its policies, and says of each statement of the source what became of it: "exact", "close" with the
difference, or "not here" with the reason and what to do instead. Each "close" and "not here" is also a comment at its place.
Files that are included are read. Variables of the environment are filled in where they are set, or stay variables of the site
file. Without -o the site file goes to standard output and the report to standard error.

JSON of Caddy is read like a Caddyfile. --adapt (caddy only) runs the program caddy, which must be in PATH, to make it of a
Caddyfile: it knows the whole language with its plugins, and the report then has the lines of the JSON.

--prove starts Sluice with the new file on free ports, sends the same requests to it and to the old server, and compares
status, header fields and body. The requests follow from the source: each host and location, the edges of prefixes and
expressions, slashes, escapes, an unknown host, an upgrade, a large body. --requests takes them from a HAR file or an access
log (combined) instead. Only GET and HEAD are sent, unless --all-methods says that the old server may get others.
--upstreams record also compares what the upstreams receive: the command prints the address of a recorder for each upstream,
the old server must be started with these in place of its own, and the comparison begins when you press Enter. With
--record-ports 9001,9002 the recorders listen on these ports of 127.0.0.1 in the order of the upstreams, and nothing is waited for.

Exit code 0: all is exact or close; 1: something is not here, or a statement called exact differs in the proof; 2: the files
cannot be read, or the command line is wrong.`

type Load = ImportFlags['capabilities']

/**
 * Returns the commands `sluice import nginx` and those of the other formats: each makes a site file of configuration files. `capabilities`:
 * those of the server that a proof starts.
 */
export function importFormatCommands(capabilities: Load): readonly Command[] {
  return Object.entries(FORMATS).map(([format, { title, adapts }]) =>
    formatCommand(format, title, adapts === true, capabilities)
  )
}

function formatCommand(format: string, title: string, adapts: boolean, capabilities: Load): Command {
  const command = new Command(format)
    .description(`make a site file of files of ${title}, with a verdict for each statement and a proof`)
    .argument('<file...>', 'its configuration files')
    .option('-o, --output <file>', 'the site file to write (default: standard output)')
    .option('--overwrite', 'replace the output file if it exists')
    .option('--report <text|json>', 'form of the report', 'text')
  if (adapts) command.option('--adapt', 'let `caddy adapt` read the Caddyfile, and read its JSON')
  return command
    .option('--prove', 'compare the old server with Sluice serving the new file')
    .option('--old <url>', 'where the old server listens, for --prove')
    .option('--requests <file>', 'HAR file or access log with the requests of --prove (default: made from the source)')
    .option('--all-methods', 'let --prove send other methods than GET and HEAD')
    .option('--upstreams <live|record>', 'what stands behind both servers in --prove', 'live')
    .option('--record-ports <ports>', 'ports of the recorders, with --upstreams record')
    .addHelpText('after', EXAMPLES)
    .action(async (files: readonly string[], flags: Omit<ImportFlags, 'capabilities'>) => {
      const { importSite } = await import('./command-run.js')
      process.exitCode = await importSite(format, files, { ...flags, capabilities })
    })
}
