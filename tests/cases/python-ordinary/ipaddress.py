import ipaddress

net = ipaddress.ip_network("10.0.0.0/29")
print([str(h) for h in net.hosts()], ipaddress.ip_address("::1").is_loopback)
