import xml.etree.ElementTree as ET

root = ET.fromstring("<a><b n='1'/><b n='2'/></a>")
print([b.get("n") for b in root.iter("b")])
