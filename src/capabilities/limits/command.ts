import { Command } from 'commander'
import { API_URL } from '../site-file/command.js'
import type { BucketFlags, LimitFlags } from './command-run.js'

const LIMIT_EXAMPLES = `
Examples:
  export SLUICE_API_KEY=…
  sluice limits
  sluice limits top lim_3f0c…
  sluice limits key lim_3f0c… 203.0.113.9
  sluice limits key "per customer" acme GET
  sluice limits reset "per customer" --values '["acme",7]'
  sluice limits reset lim_3f0c… --bucket bkt_91d…

Shows the limits of the policies that run in a process, those that refuse most now first. LIMIT is an id, or a name that one limit
alone has. "top" shows whom it refuses most in the last five minutes, "key" one bucket, and "reset" empties it: its client may go
on. KEY is the value of the expression of bucket_key, several where it has several; --values gives values that are no text, and
--bucket names a bucket as "top" does. Where a limit counts by process, what is shown and reset is of the one behind --api.
Exit code 0: shown or done; 1: the API refuses; 2: the command line is wrong.`

function withAccess(command: Command): Command {
  return command
    .option('--json', 'the answer of the API')
    .option('--api <url>', 'the management API of the process', API_URL)
    .option('--insecure-http', 'allow http:// to another machine, although a key is sent')
}

function bucketCommand(name: 'key' | 'reset', description: string): Command {
  return withAccess(
    new Command(name)
      .description(description)
      .argument('<limit>', 'id or name of the limit')
      .argument('[key...]', 'the value of each expression of bucket_key')
      .option('--values <json>', 'the values as a JSON list')
      .option('--bucket <name>', 'the bucket, as "limits top" names it')
  ).action(async (limit: string, key: string[], flags: BucketFlags) => {
    const { limitBucket } = await import('./command-run.js')
    process.exitCode = await limitBucket(name, limit, key, flags)
  })
}

/** `sluice limits`: shows limits of a running process, whom they refuse, and empties buckets. */
export function limitsCommand(): Command {
  // The options of the list are those of this command, so its list is a command of its own that runs by default.
  const list = withAccess(
    new Command('list')
      .description('show every limit, and what it has decided')
      .option('--text <text>', 'only those with it')
  ).action(async (flags: LimitFlags & { readonly text?: string }) => {
    const { limitList } = await import('./command-run.js')
    process.exitCode = await limitList(flags)
  })
  const top = withAccess(
    new Command('top')
      .description('show whom a limit refuses most now')
      .argument('<limit>', 'id or name of the limit')
      .option('--limit <count>', 'so many keys', '20')
  ).action(async (limit: string, flags: LimitFlags & { readonly limit: string }) => {
    const { limitTop } = await import('./command-run.js')
    process.exitCode = await limitTop(limit, flags)
  })
  return new Command('limits')
    .description('show limits of a running process, and let clients go on')
    .addCommand(list, { isDefault: true })
    .addCommand(top)
    .addCommand(bucketCommand('key', 'show the bucket of a key'))
    .addCommand(bucketCommand('reset', 'empty the bucket of a key, so that its client may go on'))
    .addHelpText('after', LIMIT_EXAMPLES)
}
