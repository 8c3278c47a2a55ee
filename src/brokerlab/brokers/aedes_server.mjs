// Aedes as a program that ends cleanly on SIGTERM: node aedes_server.mjs SETTINGS.json
//
// The settings are those of node_packages.py; `options` are Aedes's own and go to it as they are.

import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { createRequire } from 'node:module'
import net from 'node:net'
import path from 'node:path'
import tls from 'node:tls'
import { pathToFileURL } from 'node:url'
import access from './node_access.cjs'

const SYSTEM = '$SYS/'
const BAD_PASSWORD = 4 // the return code of CONNACK

const settings = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const { Aedes } = await import(pathToFileURL(path.join(settings.modules, 'aedes', 'aedes.js')))

const broker = await Aedes.createBroker({ ...settings.options, ...hooks(), ...await shared() })
for (const event of ['clientError', 'connectionError']) {
  broker.on(event, (client, problem) => console.error(`${event} ${client.id ?? ''}: ${problem.message}`))
}
if (settings.statsMs) {
  createRequire(path.join(settings.modules, 'here'))('aedes-stats')(broker, { interval: settings.statsMs })
}
const server = listener()
server.on('error', problem => {
  console.error(problem.message)
  process.exit(1)
})
server.listen(settings.port, settings.host)

for (const signal of ['SIGTERM', 'SIGINT']) {
  process.on(signal, () => {
    server.close()
    broker.close(() => {
      console.log('clean shutdown')
      process.exit(0)
    })
  })
}

function listener () {
  const encrypted = settings.key ? access.credentials(settings) : {}
  if (!settings.isFramed) {
    const make = settings.key ? tls.createServer : net.createServer
    return make({ ...encrypted, noDelay: settings.noDelay }, broker.handle)
  }
  const { WebSocketServer, createWebSocketStream } = createRequire(path.join(settings.modules, 'here'))('ws')
  const carrier = settings.key ? https.createServer(encrypted) : http.createServer()
  new WebSocketServer({ server: carrier }).on('connection', (socket, request) => {
    broker.handle(createWebSocketStream(socket), request)
  })
  return carrier
}

async function shared () {
  if (!settings.redis) return {}
  const passing = createRequire(path.join(settings.modules, 'here'))('mqemitter-redis')
  const store = createRequire(path.join(settings.modules, 'here'))('aedes-persistence-redis')
  return { mq: passing(settings.redis), persistence: store(settings.redis) }
}

function hooks () {
  const made = {}
  if (settings.users) {
    const isRight = access.passwords(settings.users)
    made.authenticate = (client, name, password, done) => {
      if (isRight(name, password)) return done(null, true)
      done(Object.assign(new Error('wrong user name or password'), { returnCode: BAD_PASSWORD }), false)
    }
  }
  if (settings.readable.length || settings.writable.length) {
    made.authorizeSubscribe = (client, asked, done) => {
      done(null, access.isAllowed(settings.readable, asked.topic) ? asked : null)
    }
    made.authorizePublish = (client, packet, done) => {
      const allowed = !packet.topic.startsWith(SYSTEM) && access.isAllowed(settings.writable, packet.topic)
      done(allowed ? null : new Error(`may not publish to ${packet.topic}`))
    }
  }
  return made
}
